// Gives an element the focus as soon as it is on the page; used as a `ref`.

export const focusOnMount = (element: HTMLElement | null): void => element?.focus();
