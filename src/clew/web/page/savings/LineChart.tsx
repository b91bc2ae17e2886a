// A line chart in the page's colours. uPlot draws on a canvas, so the same numbers are below it as a table.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { Caret } from "../ui/icons.tsx";

export interface Series {
  label: string;
  colour: string; // the name of a custom property
  values: (number | null)[];
  fill?: boolean;
  dashed?: boolean;
}

interface Props {
  title: string;
  x: number[];
  days?: boolean; // x is epoch seconds, else a count
  series: Series[];
  format: (value: number) => string;
}

const HEIGHT_PX = 220;

/** Lines, or bars when there is only one point: a line needs two. */
export function LineChart(props: Props) {
  return props.x.length === 1 ? <Bars {...props} /> : <Lines {...props} />;
}

function Bars({ title, x, days = false, series, format }: Props) {
  const highest = Math.max(...series.map((each) => each.values[0] ?? 0)) || 1;
  return (
    <figure class="chart">
      <figcaption>
        <h2>{title}</h2>
        <span class="hint">{days ? dayName(x[0] ?? 0) : `turn ${x[0]}, the only one so far`}</span>
      </figcaption>
      <ul class="bars">
        {series.map((each) => (
          <li key={each.label}>
            <span class="bar-label">{each.label}</span>
            <span class="bar-track" aria-hidden="true">
              <span
                class="bar"
                style={{ width: `${(100 * (each.values[0] ?? 0)) / highest}%`, background: `var(${each.colour})` }}
              />
            </span>
            <span class="bar-count">{each.values[0] == null ? "–" : format(each.values[0])}</span>
          </li>
        ))}
      </ul>
    </figure>
  );
}

const dayName = (at: number): string =>
  new Date(at * 1000).toLocaleDateString("en", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });

function Lines({ title, x, days = false, series, format }: Props) {
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const box = ref.current;
    if (!box) return undefined;
    let plot: uPlot | null = null;
    const draw = (): void => {
      plot?.destroy();
      plot = new uPlot(options(box, x, days, series, format), [x, ...series.map((each) => each.values)], box);
    };
    draw();
    const resizeObserver = new ResizeObserver(() => plot?.setSize({ width: box.clientWidth, height: HEIGHT_PX }));
    resizeObserver.observe(box);
    const scheme = window.matchMedia("(prefers-color-scheme: dark)");
    const themeObserver = new MutationObserver(draw);
    themeObserver.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    scheme.addEventListener("change", draw);
    return () => {
      resizeObserver.disconnect();
      themeObserver.disconnect();
      scheme.removeEventListener("change", draw);
      plot?.destroy();
    };
  }, [x, series]);
  return (
    <figure class="chart">
      <figcaption>
        <h2>{title}</h2>
        <ul class="legend">
          {series.map((each) => (
            <li key={each.label}>
              <span class={each.dashed ? "swatch dashed" : "swatch"} style={{ borderColor: `var(${each.colour})` }} />
              {each.label}
            </li>
          ))}
        </ul>
      </figcaption>
      <div class="plot" ref={ref} role="img" aria-label={`${title}. The same numbers are in the table below.`} />
      <details class="fold">
        <summary>
          <Caret size={12} /> As a table
        </summary>
        <div class="table" tabIndex={0} role="region" aria-label={title}>
          <Table x={x} days={days} series={series} format={format} />
        </div>
      </details>
    </figure>
  );
}

function options(
  box: HTMLElement,
  x: number[],
  days: boolean,
  series: Series[],
  format: (value: number) => string,
): uPlot.Options {
  const style = getComputedStyle(box);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--muted"), font: `11px ${style.fontFamily}`, ticks: { show: false } };
  return {
    width: box.clientWidth,
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: {
      x: { time: days, range: () => [x[0] ?? 0, x.at(-1) || 1] },
      y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.1 : 1] },
    },
    axes: [
      { ...axis, size: 32, grid: { show: false }, incrs: days ? DAY_STEPS : TURN_STEPS },
      { ...axis, size: 56, grid: { stroke: colour("--line"), width: 1 }, values: (_plot, at) => at.map(format) },
    ],
    series: [
      {},
      ...series.map((each) => ({
        label: each.label,
        stroke: colour(each.colour),
        width: 1.6,
        dash: each.dashed ? [5, 4] : undefined,
        fill: each.fill ? `${colour(each.colour)}22` : undefined,
        points: { size: 4, fill: colour(each.colour), show: each.values.length < 60 },
        spanGaps: true,
      })),
    ],
  };
}

const DAY_S = 86_400;
const DAY_STEPS = [1, 2, 7, 14, 30, 90, 365].map((n) => n * DAY_S);
const TURN_STEPS = [1, 2, 5, 10, 20, 50, 100, 200];

const Table = ({ x, days, series, format }: Omit<Props, "title">) => (
  <table>
    <thead>
      <tr>
        <th scope="col">{days ? "Day" : "Turn"}</th>
        {series.map((each) => (
          <th key={each.label} scope="col">
            {each.label}
          </th>
        ))}
      </tr>
    </thead>
    <tbody>
      {x.map((at, index) => (
        <tr key={at}>
          <th scope="row">{days ? new Date(at * 1000).toISOString().slice(0, 10) : at}</th>
          {series.map((each) => {
            const value = each.values[index];
            return <td key={each.label}>{value === null || value === undefined ? "–" : format(value)}</td>;
          })}
        </tr>
      ))}
    </tbody>
  </table>
);
