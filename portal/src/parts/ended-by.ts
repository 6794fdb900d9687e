import type { Person } from '../../../proto/gen/rms/portal/v1/common_pb.ts';

const OTHERS: Readonly<Record<string, string>> = {
  system: 'the operator',
  service: 'the service',
};

/** Who ended an access, after "by". @param userId the user of the session. */
export function endedByText(by: Person | undefined, userId: string): string {
  const { kind = '', id, name } = by ?? {};
  if (kind === 'user') return id === userId ? 'you' : name || 'a person of your team';
  return OTHERS[kind] ?? (name || 'somebody');
}
