import type { Fault } from '../ledger/judge.ts';
import { portsOf } from '../system/sockets.ts';
import type { Member, System } from '../system/system.ts';
import { nowMs } from '../wait.ts';
import { unsettledIn } from './in-flight.ts';
import type { Trial } from './trial.ts';

/** Kills a process in whatever it does. Its attempts in flight may come again, nobody else's. */
export async function killNoted(
  system: System,
  trial: Trial,
  { process: victim }: Member,
): Promise<Fault> {
  const from = nowMs();
  // It stands still while it is looked at: a connection that it opened after would not be known as its.
  await victim.freeze();
  const ports = await portsOf(victim.pid());
  const unsettled = await unsettledIn(system, trial);
  await victim.kill();
  // What it had sent, the sink may still have to read.
  await system.sink.flush();
  return { from, to: nowMs(), ports, unsettled };
}
