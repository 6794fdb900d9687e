/** Ids of the parts of one page, for links to them. Each is given once. */
export interface Ids {
  /** The id that GitHub gives a heading, so that links to it work there and here. */
  headingOf(words: string): string;
  /** The id of an entry below the heading `section`. Entries of other sections do not change it. */
  entryOf(section: string, label: string): string;
}

export function createIds(): Ids {
  const given = new Map<string, number>();
  const unique = (id: string): string => {
    const nth = given.get(id) ?? 0;
    given.set(id, nth + 1);
    return nth === 0 ? id : unique(`${id}-${nth}`);
  };
  return {
    headingOf: (words) => unique(slug(words)),
    entryOf: (section, label) => unique(`${section}-${slug(label)}`.replaceAll(/-{2,}/g, '-')),
  };
}

function slug(words: string): string {
  return words
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .trim()
    .replaceAll(' ', '-');
}
