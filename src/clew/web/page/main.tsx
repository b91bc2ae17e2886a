// The entry point: applies what the browser has stored, renders the page, and connects to the daemon.

import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./styles/index.css";
import { App } from "./App.tsx";
import { pageKey, theme } from "./state/storage.ts";
import { start } from "./state/sync.ts";

pageKey.takeFromAddress();
theme.apply();
const root = document.getElementById("page");
if (root) render(<App />, root);
void start();
