/** A return by its ids. */
export interface ReturnRef {
  readonly shopId: bigint;
  readonly returnId: bigint;
}
