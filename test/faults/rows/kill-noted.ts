import type { Fault } from '../ledger/judge.ts';
import { portsOf } from '../system/sockets.ts';
import type { Member, System } from '../system/system.ts';
import { nowMs } from '../wait.ts';
import { unrecordedIn } from './in-flight.ts';
import type { Trial } from './trial.ts';

/** Kills a process at any point. Only its own attempts in flight may be repeated. */
export async function killNoted(
  system: System,
  trial: Trial,
  { process: victim }: Member,
): Promise<Fault> {
  const from = nowMs();
  // It is frozen during the check, because a connection that it opens later would not be known as its own.
  await victim.freeze();
  const ports = await portsOf(victim.pid());
  const unrecorded = await unrecordedIn(system, trial);
  await victim.kill();
  // The sink may still have to read its requests.
  await system.sink.flush();
  return { from, to: nowMs(), ports, unrecorded };
}
