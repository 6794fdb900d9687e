import { numberText } from '../../words.ts';

/** What is wrong with a text that is too long. No field cuts what is typed or pasted. Counts as the service does. */
export function tooLong(text: string, max: number): string | undefined {
  const { length } = [...text.trim()];
  if (length <= max) return undefined;
  return `It has ${numberText(length)} characters. At most ${numberText(max)} are possible: shorten it.`;
}
