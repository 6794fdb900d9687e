import { runReplay } from '../services/platform/outbox/replay-command.ts';
import { runCommand } from '../services/platform/process/run-command.ts';

await runCommand('replay', () => runReplay('gateway', process.argv.slice(2)));
