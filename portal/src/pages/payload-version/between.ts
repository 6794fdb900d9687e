import type {
  GetPayloadVersionResponse,
  PayloadVersion,
} from '../../../../proto/gen/rms/portal/v1/payload_version_pb.ts';

/**
 * The version to compare the shop's with: the chosen one, or else the newest. Undefined when the shop has the newest and
 * none is chosen: what an older version would change, nobody has to know.
 */
export function otherVersion(
  { servedVersion, versions }: GetPayloadVersionResponse,
  chosen?: string,
): string | undefined {
  const others = versions.filter(
    ({ version, selectable }) => selectable && version !== servedVersion,
  );
  const found =
    others.find(({ version }) => version === chosen) ??
    others.find(({ version }) => version > servedVersion);
  return found?.version;
}

/** The newest version before the shop's that payloads can have. */
export function olderVersion({
  servedVersion,
  versions,
}: GetPayloadVersionResponse): string | undefined {
  return versions.find(({ version, selectable }) => selectable && version < servedVersion)?.version;
}

/** The versions after one of two up to the other one. The order of the versions is the order of their names. */
export function versionsBetween(
  { versions }: Pick<GetPayloadVersionResponse, 'versions'>,
  one: string,
  other: string,
): PayloadVersion[] {
  const [older, newer] = one < other ? [one, other] : [other, one];
  return versions.filter(({ version }) => version > older && version <= newer);
}

/** The topics whose payloads differ between two versions. */
export function changedTopics(
  setting: Pick<GetPayloadVersionResponse, 'versions'>,
  one: string,
  other: string,
): ReadonlySet<string> {
  return new Set(versionsBetween(setting, one, other).flatMap((version) => version.changedTopics));
}
