import type { NamedValue } from '../examples/example.ts';

/** The keys of a media type that hold its examples: `example` for one, `examples` for several. */
export function exampleKeys(one: unknown, several?: Readonly<Record<string, NamedValue>>): object {
  if (several) return { examples: several };
  return one === undefined ? {} : { example: one };
}
