import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A part of the image, as CycloneDX lists it. */
interface Component {
  readonly type: string;
  readonly name: string;
  readonly version: string;
  readonly purl: string;
}

/** The viewer of the API reference, whose files the Dockerfile copies. */
const COPIED = ['node_modules/swagger-ui-dist'];

/**
 * Adds to the bill of materials of npm what the image has besides: the packages inside the page of the portal, Node, and
 * the packages of Debian.
 *
 * @param bundled the places of the page's packages in the lock.
 * @param o.status of dpkg: one paragraph for each package.
 */
export function wholeImage<B extends { readonly components: readonly object[] }>(
  bill: B,
  o: {
    readonly lock: string;
    readonly bundled: readonly string[];
    readonly node: string;
    readonly osRelease: string;
    readonly status: string;
  },
) {
  const { packages } = JSON.parse(o.lock) as { packages: Record<string, { version?: string }> };
  const ofPage = [...COPIED, ...o.bundled].map((place) => {
    const { version } = packages[place] ?? {};
    if (version === undefined) throw new Error(`the lock has no ${place}`);
    const name = place.replace(/^.*node_modules\//, '');
    return component('library', { name, version, of: 'npm/' });
  });
  const added = [
    ...ofPage,
    component('application', { name: 'node', version: o.node, of: 'generic/' }),
    ...debianPackages(o),
  ];
  const known = new Set(bill.components.map((one) => Reflect.get(one, 'purl')));
  const components = [...bill.components, ...added.filter(({ purl }) => !known.has(purl))];
  // Scanners choose the advisories of Debian by this.
  const system = { type: 'operating-system', name: 'debian', version: releaseOf(o.osRelease) };
  return { ...bill, components: [...components, system] };
}

function releaseOf(osRelease: string): string {
  const [, release] = /^VERSION_ID="?([\d.]+)/m.exec(osRelease) ?? [];
  if (release === undefined) throw new Error('os-release has no VERSION_ID');
  return release;
}

function debianPackages(o: { readonly status: string; readonly osRelease: string }): Component[] {
  const release = releaseOf(o.osRelease);
  return o.status.split('\n\n').flatMap((paragraph) => {
    const field = (name: string) => new RegExp(`^${name}: (.+)$`, 'm').exec(paragraph)?.[1] ?? '';
    if (!field('Status').endsWith(' installed')) return [];
    // The source has another name where advisories name it.
    const [source = ''] = field('Source').split(' ');
    const upstream = source && `&upstream=${source}`;
    const query = `?arch=${field('Architecture')}&distro=debian-${release}${upstream}`;
    const [name, version] = [field('Package'), field('Version')];
    return [component('library', { name, version, of: 'deb/debian/', query })];
  });
}

function component(
  type: string,
  o: { readonly name: string; readonly version: string; readonly of: string; query?: string },
): Component {
  const { name, version, of, query = '' } = o;
  const purl = `pkg:${of}${name.replace('@', '%40')}@${encodeURIComponent(version)}${query}`;
  return { type, name, version, purl };
}

/** `node deploy/sbom.ts BILL BASE`: BASE has os-release and the status of dpkg. Prints the whole bill. */
if (import.meta.main) {
  const [bill = '', base = ''] = process.argv.slice(2);
  const read = (path: string) => readFileSync(path, 'utf8');
  const whole = wholeImage(JSON.parse(read(bill)), {
    lock: read('package-lock.json'),
    bundled: JSON.parse(read('portal/dist/.vite/packages.json')),
    node: process.versions.node,
    osRelease: read(join(base, 'os-release')),
    status: read(join(base, 'status')),
  });
  process.stdout.write(`${JSON.stringify(whole, null, 2)}\n`);
}
