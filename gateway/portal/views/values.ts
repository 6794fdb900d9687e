import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import type { PersonSchema } from '../../../proto/gen/rms/portal/v1/common_pb.ts';
import { actorKindText } from '../../../services/platform/actor.ts';
import type { EndedBy } from '../../tenancy/ended-access.ts';

export type PersonView = Required<
  Omit<MessageInitShape<typeof PersonSchema>, '$typeName' | '$unknown'>
>;

/** A time for a message; absent for null. */
export function timestampOf(date: Date | null | undefined) {
  return date ? timestampFromDate(date) : undefined;
}

export function personView(actor: Actor | undefined): PersonView | undefined {
  if (!actor || actor.kind === Actor_Kind.UNSPECIFIED) return undefined;
  const { kind, id, name, through } = actor;
  return { kind: actorKindText.toText(kind), id, name, through };
}

/** Who ended an access; undefined when nobody did. */
export function endedByView({ byKind, byId, byName }: EndedBy): PersonView | undefined {
  if (byKind === null) return undefined;
  return { kind: byKind, id: byId ?? '', name: byName, through: '' };
}
