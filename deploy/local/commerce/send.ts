import { text } from 'node:stream/consumers';
import { parseArgs } from 'node:util';
import { sendEvent } from './events.ts';

// Sends the event on standard input: node send.ts --to <address> < event.json

const { values } = parseArgs({
  options: { to: { type: 'string', default: '' }, id: { type: 'string' } },
});
const { COMMERCE_SECRETS = '' } = process.env;
const [secret = ''] = COMMERCE_SECRETS.split(',');
const event = JSON.parse(await text(process.stdin));
const { to, id } = values;
await sendEvent(event, { to, secret, ...(id !== undefined && { id }) });
process.stdout.write('accepted\n');
