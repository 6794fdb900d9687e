/** Marks of direction, zero-width characters and soft hyphens, which come with a text that is copied from other programs. */
const INVISIBLE =
  /[\u{ad}\u{61c}\u{200b}\u{200e}\u{200f}\u{202a}-\u{202e}\u{2060}-\u{2069}\u{feff}]/gu;

/** A text that is searched for or called, without characters that nobody sees and without space around it. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, '').trim();
}
