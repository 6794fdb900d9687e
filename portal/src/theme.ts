import { createTheme, type MantineColorsTuple } from '@mantine/core';

/** The blue of the sign-in pages; shade 6 has a contrast of more than 4.5:1 on white. */
const brand: MantineColorsTuple = [
  '#e9f1fd',
  '#d3e2fa',
  '#a6c4f4',
  '#76a4ee',
  '#4d88e8',
  '#2a6fdd',
  '#0b57c9',
  '#094bae',
  '#073f93',
  '#053278',
];

/** Fonts of the system, and colours whose text reaches the contrast of WCAG 2.2 AA in both schemes. */
export const theme = createTheme({
  primaryColor: 'brand',
  primaryShade: { light: 6, dark: 5 },
  colors: { brand },
  autoContrast: true,
  luminanceThreshold: 0.35,
  defaultRadius: 'md',
  cursorType: 'pointer',
  respectReducedMotion: true,
  fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
  fontFamilyMonospace:
    "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace",
  headings: {
    fontWeight: '650',
    sizes: { h1: { fontSize: '1.5rem' }, h2: { fontSize: '1.125rem' } },
  },
});
