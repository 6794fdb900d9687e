/** Another process has taken the lease of this process, so this process must not write under it any more. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost';

  constructor(what: string) {
    super(`${what}: another process has the lease`);
  }
}
