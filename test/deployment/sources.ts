import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

const packageShape = z.object({
  dependencies: z.record(z.string(), z.string()),
  devDependencies: z.record(z.string(), z.string()),
});

/** The packages of the image (`dependencies`), and those of a checkout. */
export function packages(): { readonly image: Set<string>; readonly checkout: Set<string> } {
  const { dependencies, devDependencies } = packageShape.parse(JSON.parse(read('package.json')));
  const image = Object.keys(dependencies);
  return { image: new Set(image), checkout: new Set([...image, ...Object.keys(devDependencies)]) };
}

/** Sources and data below the folders, relative to the root. Optionally without those that `.dockerignore` leaves out. */
export function sourcesIn(
  folders: readonly string[],
  o: { readonly inImage: boolean },
): readonly string[] {
  const patterns = folders.map((folder) => `${folder}/**/*.{ts,json}`);
  // A folder of tests may have its own packages.
  const exclude = ['**/node_modules/**', ...(o.inImage ? leftOut() : [])];
  return globSync(patterns, { cwd: ROOT, exclude }).toSorted();
}

/** Patterns for files anywhere. The rest of that file leaves out everything and adds folders again. */
function leftOut(): string[] {
  return read('.dockerignore')
    .split('\n')
    .filter((line) => line.startsWith('**/'))
    .flatMap((line) => [line, `${line}/**`]);
}

export interface Import {
  /** The importing file. */
  readonly file: string;
  /** A file relative to the root, or the name of a package. */
  readonly target: string;
  readonly isFile: boolean;
}

/** `import … from`, `export … from`, `import()` and `require()` that remain after types are stripped. */
const STATEMENT =
  /^(?:import|export)(?! type\b)[^;'"]*?from\s+['"]([^'"]+)['"]|^import ['"]([^'"]+)['"]/gm;
const CALL =
  /(?<!typeof )\b(?:import|require|require\.resolve|import\.meta\.resolve)\(['"]([^'"]+)['"]\)/g;

/** The files and packages that a file needs at run time. Node's own modules are left out. */
export function importsOf(file: string): Import[] {
  const text = read(file);
  const named = [...text.matchAll(STATEMENT), ...text.matchAll(CALL)];
  return named
    .map(([, first, second]) => first ?? second ?? '')
    .filter((specifier) => !specifier.startsWith('node:'))
    .map((specifier) =>
      specifier.startsWith('.')
        ? { file, target: relative('.', join(dirname(file), specifier)), isFile: true }
        : { file, target: packageOf(specifier), isFile: false },
    );
}

/** The files that a file imports, also only for their types. */
export function filesImportedBy(file: string): string[] {
  const paths = read(file).matchAll(/\b(?:from|import|import\()\s*'(\.[^']+)'/g);
  return [...paths].map(([, path = '']) => join(dirname(file), path));
}

/** The package of a specifier: `@connectrpc/connect` for `@connectrpc/connect/protocol`. */
function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

/** Files below docs that a file names by a relative URL. */
export function docsReadBy(file: string): string[] {
  if (/\bwriteFile(Sync)?\(/.test(read(file))) return [];
  return [...read(file).matchAll(/new URL\('((?:\.\.\/)+docs\/[^']+)', import\.meta\.url\)/g)].map(
    ([, path = '']) => join(dirname(file), path),
  );
}

/** Whether the build context and the image contain the file. */
export function isShipped(path: string): boolean {
  const isIn = (line: string): boolean => path === line || path.startsWith(`${line}/`);
  const taken = read('.dockerignore')
    .split('\n')
    .flatMap((line) => /^!(.+)$/.exec(line)?.[1] ?? []);
  const copied = [...read('deploy/Dockerfile').matchAll(/^COPY (\S+) \S+$/gm)].map(
    ([, from = '']) => from,
  );
  return taken.some(isIn) && copied.some(isIn);
}

/** The services whose RPCs a file calls, such as `ReturnsService`. */
export function servicesCalledBy(file: string): string[] {
  return [...read(file).matchAll(/\bcreateServiceClient\(\s*(\w+)/g)].map(([, name = '']) => name);
}

function read(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8');
}
