import { TOPICS, TRIGGERS } from '../vocabulary.ts';
import { TOPIC_SHAPES, TRIGGER_TEXTS } from './topics.ts';

const TOPIC_HEAD = '| Topic | Triggers | Body, besides `topic` and `trigger` |';
const TRIGGER_HEAD = '| Trigger | Sent when |';

/** The table names the fields of a payload only when it has at most this many. */
const MAX_NAMED = 12;

/**
 * Returns docs/delivery.md with new tables of topics and triggers.
 *
 * @throws Error when the page has no such table.
 */
export function withEventTables(page: string): string {
  const topics = TOPICS.map((topic) => {
    const { about, triggers, schema } = TOPIC_SHAPES[topic];
    const names = Object.keys(schema);
    const fields = names.length > MAX_NAMED ? '' : ` ${coded(names)}`;
    return `| \`${topic}\` | ${coded(triggers)} | ${about}${fields} |`;
  });
  const triggers = TRIGGERS.map(
    (trigger) => `| \`${trigger}\` | ${TRIGGER_TEXTS[trigger].join(' ')} |`,
  );
  const withTopics = withTable(page, [TOPIC_HEAD, '|---|---|---|', ...topics]);
  return withTable(withTopics, [TRIGGER_HEAD, '|---|---|', ...triggers]);
}

function coded(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(', ');
}

/** Replaces the table that has the same head. */
function withTable(page: string, lines: readonly string[]): string {
  const [head = ''] = lines;
  const start = page.indexOf(`\n${head}\n`) + 1;
  const end = page.indexOf('\n\n', start);
  if (start === 0 || end === -1) throw new Error(`docs/delivery.md has no table "${head}"`);
  return page.slice(0, start) + lines.join('\n') + page.slice(end);
}
