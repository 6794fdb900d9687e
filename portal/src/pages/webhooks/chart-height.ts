/** Height of a chart, and of what is in its place. Pixels. */
export const CHART_HEIGHT = 190;
