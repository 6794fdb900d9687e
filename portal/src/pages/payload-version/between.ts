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

/** A change of the version, which the shop made already or could make. */
export interface VersionChange {
  readonly from: string;
  readonly to: string;
  readonly isMade: boolean;
}

/**
 * What the page says about each webhook: the change that the shop made, as long as the address names the former version,
 * or else the one that it could make.
 *
 * @param o.former the version of before, from the address.
 * @param o.other the version to compare with.
 */
export function changeOf(
  { servedVersion, versions }: GetPayloadVersionResponse,
  o: { readonly former: string | undefined; readonly other: string | undefined },
): VersionChange | undefined {
  const isKnown = versions.some(({ version }) => version === o.former);
  if (o.former !== undefined && isKnown && o.former !== servedVersion) {
    return { from: o.former, to: servedVersion, isMade: true };
  }
  return o.other === undefined ? undefined : { from: servedVersion, to: o.other, isMade: false };
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
