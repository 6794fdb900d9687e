import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { PersonSchema } from '../../../proto/gen/rms/portal/v1/common_pb.ts';
import type { EndedBy } from '../../tenancy/ended-access.ts';

export type PersonView = Required<
  Omit<MessageInitShape<typeof PersonSchema>, '$typeName' | '$unknown'>
>;

/** A time for a message; absent for null. */
export function timestampOf(date: Date | null | undefined) {
  return date ? timestampFromDate(date) : undefined;
}

/** Who ended an access; undefined when nobody did. */
export function endedByView({ byKind, byId, byName }: EndedBy): PersonView | undefined {
  if (byKind === null) return undefined;
  return { kind: byKind, id: byId ?? '', name: byName, through: '' };
}
