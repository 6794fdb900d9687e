import type { GenEnum } from '@bufbuild/protobuf/codegenv2';

/**
 * Translates a proto enum to its text in the database and back, by its descriptor: `RETURN_STATE_OPEN` is `open`.
 *
 * Zero (unspecified) has no text. A column stores it as null.
 *
 * @returns `toText` throws RangeError for zero and unknown numbers; `fromText` throws RangeError for unknown texts.
 */
export function enumText<T extends number>(
  desc: GenEnum<T>,
): { toText(value: T): string; fromText(text: string): T } {
  const prefix = desc.sharedPrefix?.length ?? 0;
  const texts = new Map<number, string>();
  const numbers = new Map<string, T>();
  for (const value of desc.values) {
    if (value.number === 0) continue;
    const text = value.name.slice(prefix).toLowerCase();
    texts.set(value.number, text);
    // The type of the descriptor says only `number`, but the numbers are the members of T.
    numbers.set(text, value.number as T);
  }
  return {
    toText(value) {
      const text = texts.get(value);
      if (text === undefined) throw new RangeError(`${desc.typeName} has no text for ${value}`);
      return text;
    },
    fromText(text) {
      const value = numbers.get(text);
      if (value === undefined) throw new RangeError(`${desc.typeName} has no value "${text}"`);
      return value;
    },
  };
}
