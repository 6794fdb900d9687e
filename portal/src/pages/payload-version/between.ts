import type { GetPayloadVersionResponse } from '../../../../proto/gen/rms/portal/v1/payload_version_pb.ts';

/** The version to compare the shop's with at first: the newest other one that payloads can have. */
export function otherVersion({
  servedVersion,
  versions,
}: GetPayloadVersionResponse): string | undefined {
  return versions.find(({ version, selectable }) => selectable && version !== servedVersion)
    ?.version;
}

/** The topics whose payloads differ between two versions. The order of the versions is the order of their names. */
export function changedTopics(
  { versions }: Pick<GetPayloadVersionResponse, 'versions'>,
  one: string,
  other: string,
): ReadonlySet<string> {
  const [older, newer] = one < other ? [one, other] : [other, one];
  return new Set(
    versions
      .filter(({ version }) => version > older && version <= newer)
      .flatMap((version) => version.changedTopics),
  );
}
