/**
 * The long texts of a statement, in one bytea parameter beside the JSON parameter. Inside JSON, the client would escape
 * each text and the server would parse it. This would cost more than the other work of the statement.
 */
export interface PackedTexts {
  /** Adds a text. Returns its place, which goes into the JSON parameter; null for an absent text. */
  add(text: string | undefined): Place | null;
  /** Returns all texts in UTF-8, one after the other, as the value of the bytea parameter of {@link packedText}. */
  bytes(): Buffer;
}

/** The place of a text: the number of its first byte, counted from 1, and its length in bytes. */
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
 * Returns SQL that reads a text at its place.
 *
 * @param place SQL for its {@link Place}, an integer[].
 * @param bytes SQL for all texts, such as `$3::bytea`.
 */
export function packedText(place: string, bytes: string): string {
  return `convert_from(substring(${bytes} from (${place})[1] for (${place})[2]), 'UTF8')`;
}
