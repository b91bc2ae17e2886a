import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./base.css";
import "./layout.css";
import "./turns.css";
import "./views.css";
import "./reviews.css";
import { App } from "./App.tsx";
import { start } from "./sync.ts";
import { pageKey, theme } from "./keep.ts";

pageKey.take();
theme.apply();
const root = document.getElementById("page");
if (root) render(<App />, root);
void start();
