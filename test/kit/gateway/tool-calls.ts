import type { SampleObjects } from '../../../gateway/mcp/tool.ts';
import { TOOLS } from '../../../gateway/mcp/tools.ts';
import { FAKE } from './fake-objects.ts';

let texts = 0;

/** A text that differs from all before. The service does not record a repeated note within a minute. */
export function longText(length: number): string {
  texts += 1;
  return String(texts).padStart(9, '0') + 'x'.repeat(length - 9);
}

/** The objects of the fake services. Users with `team.manage` may revoke the grant any number of times. */
export const SAMPLE_OBJECTS: SampleObjects = {
  openReturn: Number(FAKE.returns.open),
  flaggedReturn: Number(FAKE.returns.flagged),
  closedReturn: Number(FAKE.returns.closed),
  reportedReturn: Number(FAKE.returns.reported),
  lineItems: [Number(FAKE.lineItem)],
  destination: Number(FAKE.destination),
  webhook: Number(FAKE.webhook),
  delivery: FAKE.delivery,
  replay: Number(FAKE.replay),
  assistant: 'spare-grant-of-the-bench',
  longText,
};

/** An unused grant in the first shop. */
export const SPARE_GRANT = SAMPLE_OBJECTS.assistant;

/** Arguments of a successful call with the fake services, by tool. */
export const GOOD_CALLS: Readonly<Record<string, Readonly<Record<string, unknown>>>> =
  Object.fromEntries(TOOLS.map(({ name, sample }) => [name, sample(SAMPLE_OBJECTS)]));
