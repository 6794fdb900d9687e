/**
 * Height of a chart, and of what is in its place while it loads. Pixels. Not in `hour-chart.tsx`: who imports that file
 * loads the chart library with it, and the page loads it only when it shows a chart.
 */
export const CHART_HEIGHT = 190;
