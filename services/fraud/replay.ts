import { runReplay } from '../platform/outbox/replay-command.ts';
import { runCommand } from '../platform/process/run-command.ts';

await runCommand('replay', () => runReplay('fraud', process.argv.slice(2)));
