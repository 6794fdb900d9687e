/** A mail as the gateway has stored it. */
export interface StoredMail {
  readonly id: string;
  readonly kind: string;
  readonly subject: string;
  readonly userId: string;
  readonly ended: string | null;
  readonly error: string;
  readonly attempts: number;
}

export interface JudgedMails {
  /** Mails that are missing, or ended without arriving although no kill met them. */
  readonly lost: number;
  /** Mails that arrived twice, and second mails about one subject on one day. */
  readonly repeated: number;
  readonly problems: readonly string[];
}

/**
 * Compares the stored mails with those that arrived.
 *
 * @param o.arrived the `Message-ID`s, `<shop>.<mail>@<host>`.
 * @param o.begun mails that a process was handing over when it was killed. Only these may be unknown.
 */
export function judgeMails(
  mails: readonly StoredMail[],
  o: {
    readonly arrived: readonly string[];
    readonly begun: ReadonlySet<string>;
    readonly expected: number;
  },
): JudgedMails {
  const arrivals = countsOf(o.arrived.map((id) => id.replace(/^\d+\.(\d+)@.*$/, '$1')));
  const twice = [...arrivals].filter(([, count]) => count > 1);
  const known = new Set(mails.map(({ id }) => id));
  const strangers = [...arrivals.keys()].filter((id) => !known.has(id));
  const subjects = countsOf(
    mails.map(({ userId, kind, subject }) => `${userId} ${kind} ${subject}`),
  );
  const tooMany = [...subjects].filter(([, count]) => count > 1);
  const missing = Math.max(0, o.expected - mails.length);
  const faults = mails.flatMap((one) => faultOf(one, arrivals.get(one.id) ?? 0, o.begun) ?? []);
  return {
    lost: missing + faults.length,
    repeated: twice.length + tooMany.length,
    problems: [
      ...(missing > 0 ? [`${missing} mails were never stored`] : []),
      ...faults,
      ...twice.map(([id, count]) => `mail ${id} arrived ${count} times`),
      ...tooMany.map(([subject, count]) => `${count} mails of one day for ${subject}`),
      ...strangers.map((id) => `mail ${id} arrived and is not stored`),
    ],
  };
}

function faultOf(
  { id, kind, ended, error }: StoredMail,
  arrivals: number,
  begun: ReadonlySet<string>,
): string | undefined {
  if (ended === 'sent') return arrivals > 0 ? undefined : `mail ${id} is sent, and never arrived`;
  if (ended === 'unknown' && begun.has(id)) return undefined;
  return `mail ${id} (${kind}) ended as ${ended}: ${error}`;
}

function countsOf(values: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}
