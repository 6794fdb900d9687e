/** A small edit that breaks one promise of the delivery path or of the HTTP layer. */
export interface Bug {
  /** A short name in kebab-case. */
  readonly name: string;
  /** The promise that it breaks. If docs/delivery.md has the promise, in its words. */
  readonly promise: string;
  /** The path from the root of the repository. */
  readonly file: string;
  /** The text to replace. The file contains it exactly once. */
  readonly find: string;
  readonly replace: string;
  /** Test files that should catch the bug, the fastest first. */
  readonly tests: readonly string[];
  /** A row of the fault suite that should catch the bug if no test file does. */
  readonly row?: string;
}

/**
 * Plants the bug in the text of the file.
 *
 * @throws Error unless the text contains `find` exactly once.
 */
export function planted({ name, file, find, replace }: Bug, text: string): string {
  const count = text.split(find).length - 1;
  if (count !== 1) throw new Error(`${name}: its text is ${count} times in ${file}`);
  // A function, because a replacement text may contain `$`.
  return text.replace(find, () => replace);
}
