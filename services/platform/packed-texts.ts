/**
 * Long texts of a statement's JSON, in one value of bytes beside it. In JSON each would be escaped here and
 * taken apart there, which costs more than all else about it.
 */
export interface PackedTexts {
  /** Takes a text in; what the JSON says in its place, null for an absent one. */
  add(text: string | undefined): Place | null;
  /** All texts in UTF-8, one after the other: the value that {@link packedText} names. */
  bytes(): Buffer;
}

/** Where a text stands: its first byte, from 1, and how many there are. */
export type Place = readonly [from: number, bytes: number];

export function packTexts(): PackedTexts {
  const parts: Buffer[] = [];
  let next = 1;
  return {
    add(text) {
      if (text === undefined) return null;
      const part = Buffer.from(text);
      const place = [next, part.length] as const;
      parts.push(part);
      next += part.length;
      return place;
    },
    bytes: () => Buffer.concat(parts),
  };
}

/**
 * SQL for a text that was packed.
 *
 * @param place SQL for its {@link Place}, an integer[].
 * @param bytes SQL for all texts, such as `$3::bytea`.
 */
export function packedText(place: string, bytes: string): string {
  return `convert_from(substring(${bytes} from (${place})[1] for (${place})[2]), 'UTF8')`;
}
