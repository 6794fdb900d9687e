/**
 * Long texts of a statement, in one bytea parameter beside its JSON parameter. In JSON the client would escape each text
 * and the server would parse it, which costs more than the rest of the statement.
 */
export interface PackedTexts {
  /** Adds a text. Returns its place, for the JSON parameter; null for an absent text. */
  add(text: string | undefined): Place | null;
  /** All texts in UTF-8, one after the other: the value for {@link packedText}. */
  bytes(): Buffer;
}

/** Place of a text: its first byte, counted from 1, and its length in bytes. */
export type Place = readonly [from: number, bytes: number];

export function packTexts(): PackedTexts {
  const parts: Buffer[] = [];
  let next = 1;
  return {
    add(text) {
      if (text === undefined) return null;
      const part = Buffer.from(text);
      const span = [next, part.length] as const;
      parts.push(part);
      next += part.length;
      return span;
    },
    bytes: () => Buffer.concat(parts),
  };
}

/**
 * Returns SQL for a packed text.
 *
 * @param place SQL for its {@link Place}, an integer[].
 * @param bytes SQL for all texts, such as `$3::bytea`.
 */
export function packedText(place: string, bytes: string): string {
  return `convert_from(substring(${bytes} from (${place})[1] for (${place})[2]), 'UTF8')`;
}
