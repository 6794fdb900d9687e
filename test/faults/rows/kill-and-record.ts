import type { Fault } from '../ledger/judge.ts';
import { portsOf } from '../system/sockets.ts';
import type { Member, System } from '../system/system.ts';
import { nowMs } from '../wait.ts';
import { unrecordedIn } from './in-flight.ts';
import type { Trial } from './trial.ts';

/** Kills a process, and records the fault. Only the process's own attempts in flight may be repeated. */
export async function killAndRecord(
  system: System,
  trial: Trial,
  { process: victim }: Member,
): Promise<Fault> {
  const from = nowMs();
  // The process is frozen during the check, so that it opens no connection that the fault does not list.
  await victim.freeze();
  const ports = await portsOf(victim.pid());
  const unrecorded = await unrecordedIn(system, trial);
  await victim.kill();
  // The sink may not have read its requests yet.
  await system.sink.flush();
  return { from, to: nowMs(), ports, unrecorded };
}
