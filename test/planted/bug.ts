/** A small edit that breaks one promise, of the delivery path or of the HTTP edge. */
export interface Bug {
  /** Short, in kebab-case. */
  readonly name: string;
  /** The promise that it breaks, in the words of docs/delivery.md if it is there. */
  readonly promise: string;
  /** From the root of the repository. */
  readonly file: string;
  /** Stands in the file exactly once. */
  readonly find: string;
  readonly replace: string;
  /** Test files that should catch it, the cheapest first. */
  readonly tests: readonly string[];
  /** A row of the fault suite that should, if no test file does. */
  readonly row?: string;
}

/**
 * The text of the file with the bug in it.
 *
 * @throws Error unless the text to replace is in the file exactly once.
 */
export function planted({ name, file, find, replace }: Bug, text: string): string {
  const count = text.split(find).length - 1;
  if (count !== 1) throw new Error(`${name}: its text stands ${count} times in ${file}`);
  // A function: a replacement text may contain `$`.
  return text.replace(find, () => replace);
}
