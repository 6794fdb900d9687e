export interface Figure {
  readonly name: string;
  readonly value: string;
  /** The value as a number, if it is one. */
  readonly number?: number;
  /** Parts of the value, by name. */
  readonly parts?: Readonly<Record<string, number>>;
  readonly goal?: string;
  /** Absent without a goal. */
  readonly met?: boolean;
}
