import { runReplay } from '../platform/outbox/replay-command.ts';
import { runCommand } from '../platform/process/run-command.ts';

await runCommand('replay', () => runReplay('carts', process.argv.slice(2)));
