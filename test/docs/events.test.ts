import { readFile } from 'node:fs/promises';
import { expect, test } from '@jest/globals';
import { triggersOf } from '../../services/contract/views/payload.ts';
import { TOPICS, TRIGGERS } from '../../services/contract/vocabulary.ts';

/** The words in backticks of each cell, of the rows of the section "When each event is sent" of docs/delivery.md. */
async function rows(): Promise<string[][][]> {
  const page = await readFile(new URL('../../docs/delivery.md', import.meta.url), 'utf8');
  const [section = ''] = page.split('## When each event is sent\n')[1]?.split('\n## ') ?? [];
  return section
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) => line.split('|').slice(1, -1).map(wordsOf));
}

const wordsOf = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, word = '']) => word);

test('docs/delivery.md lists the triggers of each topic, as the service delivers them', async () => {
  const topics = (await rows()).filter((cells) => cells.length === 3);
  expect(topics.map(([topic = [], triggers]) => [...topic, triggers])).toEqual(
    TOPICS.map((topic) => [topic, [...triggersOf(topic)]]),
  );
});

test('docs/delivery.md says of each trigger when it is sent', async () => {
  const triggers = (await rows()).filter((cells) => cells.length === 2);
  const named = triggers.flatMap(([words = []]) => words);
  expect(named.toSorted()).toEqual([...TRIGGERS].toSorted());
});
