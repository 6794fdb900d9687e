/** Another process has taken what this one had leased, so this one must not write for it any more. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost';

  constructor(what: string) {
    super(`${what}: another process has the lease`);
  }
}
