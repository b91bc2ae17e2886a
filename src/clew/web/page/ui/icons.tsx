// The icons of the page, on a grid of 16: one stroke width, and the colour of the text around them.

import type { ComponentChildren } from "preact";

const icon =
  (children: ComponentChildren) =>
  ({ size = 16 }: { size?: number }) => (
    <svg
      class="icon"
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.4"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      {children}
    </svg>
  );

export const Plus = icon(<path d="M8 3v10M3 8h10" />);
export const Search = icon(<path d="M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM10.700 10.700 14 14" />);
export const Left = icon(<path d="M9.500 3.500 5 8l4.500 4.500" />);
export const Close = icon(<path d="m4 4 8 8M12 4l-8 8" />);
export const Send = icon(<path d="M8 13V3.500M4 7.500l4-4 4 4" />);
export const Stop = icon(<rect x="4" y="4" width="8" height="8" rx="1.500" fill="currentColor" />);
export const Pencil = icon(<path d="M10.500 3 13 5.500 5.500 13H3v-2.500L10.500 3Z" />);
export const Again = icon(<path d="M13 8a5 5 0 1 1-1.600-3.700M13 2v3h-3" />);
export const Back = icon(<path d="M6.500 4 3 7.500 6.500 11M3.500 7.500H10a3 3 0 0 1 0 6H8" />);
export const Fork = icon(<path d="M4 2.500v11M4 9.500c0-3 8-1.500 8-7M9.500 5 12 2.500 14.500 5" />);
export const Copy = icon(<path d="M5.500 5.500h8v8h-8zM10.500 5V2.500h-8v8H5" />);
export const Picture = icon(<path d="M2.500 3.500h11v9h-11zM2.500 10.500l3-3 3 3 2-2 3 3M10.500 6.500h.010" />);
export const Check = icon(<path d="m3 8.500 3.200 3L13 4.500" />);
export const Gear = icon(
  <path d="M2.500 4.500h5m3 0h3M2.500 11.500h2m3 0h6M9 3a1.500 1.500 0 1 0 0 3 1.500 1.500 0 0 0 0-3ZM6 10a1.500 1.500 0 1 0 0 3 1.500 1.500 0 0 0 0-3Z" />,
);
export const Trash = icon(<path d="M3 4.500h10M6.500 4V2.500h3V4M4.500 4.500l.6 9h5.800l.6-9" />);
export const Files = icon(<path d="M4 2.500h5l3 3v8H4zM6 8h4M8 6v4M6 11.500h4" />);
export const Download = icon(<path d="M8 2.500v8M4.500 7.500 8 11l3.500-3.500M3 13.500h10" />);
export const More = icon(<path d="M3.500 8h.01M8 8h.01M12.500 8h.01" stroke-width="2.200" />);
export const Caret = icon(<path d="m6 4 4 4-4 4" />);
export const Sun = icon(
  <path d="M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1.500v1M8 13.500v1M1.500 8h1M13.500 8h1M3.400 3.400l.7.7M11.900 11.900l.7.7M12.600 3.400l-.7.7M4.100 11.900l-.7.7" />,
);
export const Moon = icon(<path d="M13 9.500A5.500 5.500 0 0 1 6.500 3a5.500 5.500 0 1 0 6.500 6.500Z" />);
export const Half = icon(
  <>
    <circle cx="8" cy="8" r="5.500" />
    <path d="M8 2.500a5.500 5.500 0 0 1 0 11Z" fill="currentColor" />
  </>,
);
export const Question = icon(<path d="M6 6a2 2 0 1 1 2.700 1.900c-.5.2-.7.5-.7 1.100M8 11.500v.1" />);
export const Warning = icon(<path d="M8 2.500 14.500 13.500h-13L8 2.500ZM8 6.500v3M8 11.500v.1" />);

/** The logo: a ball of thread with a loose end. */
export const Logo = ({ size = 22 }: { size?: number }) => (
  <svg class="mark" width={size} height={size} viewBox="0 0 32 32" fill="none" stroke="currentColor" aria-hidden="true">
    <g stroke-width="2.200" stroke-linecap="round">
      <circle cx="14" cy="14" r="10.500" />
      <path d="M5 10c6-3 13-2 18 4M4 15.500c7-3.500 13-2 17.500 6M9.500 5.500c6 0 11 3 14.500 7M14 24.500c5 3.500 10 1 15 4" />
    </g>
  </svg>
);
