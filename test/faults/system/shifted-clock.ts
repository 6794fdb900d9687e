// Preloaded into a process (`node --import`). Each SIGUSR2 shifts its wall clock by the next of these jumps. Timers and
// monotonic time are not changed, as when a machine's clock is set.

const HOUR_MS = 3_600_000;
const JUMPS_MS = [5 * HOUR_MS, -72 * HOUR_MS, 24 * 30 * HOUR_MS];

const RealDate = globalThis.Date;
let offset = 0;
let jumps = 0;

class ShiftedDate extends RealDate {
  constructor(...given: ConstructorParameters<typeof RealDate> | []) {
    if (given.length === 0) super(ShiftedDate.now());
    else super(...given);
  }

  static override now(): number {
    return RealDate.now() + offset;
  }
}

globalThis.Date = ShiftedDate as DateConstructor;

process.on('SIGUSR2', () => {
  offset += JUMPS_MS[jumps % JUMPS_MS.length] ?? 0;
  jumps += 1;
});
