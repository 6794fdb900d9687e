export interface Figure {
  readonly name: string;
  readonly value: string;
  /** The value as a number, where it is one. */
  readonly number?: number;
  /** What it is made of, by name. */
  readonly parts?: Readonly<Record<string, number>>;
  readonly goal?: string;
  /** Only where there is a goal. */
  readonly met?: boolean;
}
