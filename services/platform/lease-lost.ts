/** Another process has taken the lease of this process. So this process must stop writing under the lease. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost';

  constructor(what: string) {
    super(`${what}: another process has the lease`);
  }
}
