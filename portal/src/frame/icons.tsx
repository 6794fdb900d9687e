/** The strokes of the icons, on a grid of 24. */
const PATHS = {
  webhooks: 'M5 12h6m2 0h6M5 12a2 2 0 1 1-.01 0M19 12a2 2 0 1 0 .01 0M12 5v4m0 6v4',
  returns: 'M9 7 4 12l5 5M4.500 12H14a5 5 0 0 1 5 5v1',
  version: 'M4 7l8-4 8 4-8 4zM4 12l8 4 8-4M4 17l8 4 8-4',
  keys: 'M14 10a4 4 0 1 0-3.500 3.970L12 12.500h2V15h2v2h3v-2.500l-5.100-4.500',
  apps: 'M4 4h6v6H4zM14 4h6v6h-6zM4 14h6v6H4zM17 14v6M14 17h6',
  assistants:
    'M12 3v3M6 8h12a2 2 0 0 1 2 2v7a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2v-7a2 2 0 0 1 2-2zM9 13v1M15 13v1',
  team: 'M9 11a3.500 3.500 0 1 0-.01 0M2.500 20a6.500 6.500 0 0 1 13 0M16 4.500a3.500 3.500 0 0 1 0 6.500M18 14a6.500 6.500 0 0 1 3.500 6',
  audit: 'M6 3h9l4 4v14H6zM14 3v5h5M9 13h7M9 17h5',
  destinations:
    'M12 21s7-6.200 7-11.500a7 7 0 1 0-14 0C5 14.800 12 21 12 21zM12 12a2.500 2.500 0 1 0-.01 0',
  menu: 'M4 7h16M4 12h16M4 17h16',
  close: 'M6 6l12 12M18 6 6 18',
  usage: 'M4 20V10M10 20V4M16 20v-7M21 20H3',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg
      width="18"
      height="18"
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.8"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
