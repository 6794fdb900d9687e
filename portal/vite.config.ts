import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type DescMessage, fromBinary, toBinary } from '@bufbuild/protobuf';
import { base64Encode } from '@bufbuild/protobuf/wire';
import {
  type DescriptorProto,
  type FileDescriptorProto,
  FileDescriptorProtoSchema,
} from '@bufbuild/protobuf/wkt';
import { defineConfig, type Plugin } from 'vite';
import { PORTAL_METHODS } from '../gateway/portal/methods.ts';

/** The gateway replaces this in `index.html` with the nonce of each response (gateway/portal). */
const NONCE_PLACEHOLDER = '__CSP_NONCE__';

/** What every page needs: the libraries, and the protos that all others import. */
const BASE =
  /node_modules\/(?:react|react-dom|scheduler|clsx|@tanstack|@bufbuild|@connectrpc|@mantine\/(?:hooks|core\/esm\/core))\/|portal\/v1\/common_pb|common\/v1\/actor_pb/;

/** What only pages with filters and forms need. */
const FIELDS =
  /@mantine\/core\/esm\/components\/(?:Combobox|Input|NativeSelect|Text(?:Input|area))/;

/** Parts of the page itself, without those of dialogs, which are loaded when one opens, and of filters. */
const PARTS =
  /portal\/src\/(?:api|parts|session|words)(?!\/(?:dialog|filters|form-modal|field-errors))|@mantine\/core\/esm\/components\/(?!Combobox|Input|NativeSelect|Text(?:Input|area))/;

/**
 * Writes the descriptors of the protos as text. As base64 they compress badly, because equal names begin at different
 * bits. Those of services have only what the page calls, and the fields that its sources name.
 */
const shortDescriptors: Plugin = {
  name: 'short-descriptors',
  apply: 'build',
  transform: {
    filter: { id: /\/proto\/gen\/.*_pb\.ts$/ },
    handler: (code) => ({
      code: code.replace(
        /fileDesc\("([\w+/=]+)"/g,
        (_, base64: string) => `fileDesc(btoa(${JSON.stringify(shortened(base64))})`,
      ),
      map: null,
    }),
  },
};

/** Lists the packages inside the page, as places in the lock, for the bill of materials (deploy/sbom.ts). */
const bundledPackages: Plugin = {
  name: 'bundled-packages',
  apply: 'build',
  generateBundle(_options, bundle) {
    const modules = Object.values(bundle).flatMap((file) =>
      'moduleIds' in file ? file.moduleIds : [],
    );
    const places = modules.flatMap(
      (id) => /^.*?(node_modules\/(?:.*\/node_modules\/)?(?:@[^/]+\/)?[^/]+)/.exec(id)?.[1] ?? [],
    );
    const source = JSON.stringify([...new Set(places)].toSorted());
    this.emitFile({ type: 'asset', fileName: '.vite/packages.json', source });
  },
};

const CALLED: ReadonlySet<string> = new Set(
  PORTAL_METHODS.map(({ method }) => `${method.parent.typeName}/${method.name}`),
);

const SOURCES = fileURLToPath(new URL('src/', import.meta.url));

/** The words of the sources. The page has no field whose name is not one of them. */
const WORDS: ReadonlySet<string> = new Set(
  readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.tsx?$/.test(file))
    .flatMap((file) => readFileSync(SOURCES + file, 'utf8').match(/\w+/g) ?? []),
);

/** What the gateway adds to each request to a service. */
const FILLED_IN: ReadonlySet<string> = new Set(['shopId', 'actor']);

/** The messages of the methods that the page calls, with the numbers of the fields that it has. */
const SENT = new Map<string, ReadonlySet<number>>();
for (const { method } of PORTAL_METHODS) {
  addSent(method.input, FILLED_IN);
  addSent(method.output);
}

function addSent(message: DescMessage, without: ReadonlySet<string> = new Set()): void {
  if (SENT.has(message.typeName)) return;
  const fields = message.fields.filter(
    ({ localName }) => WORDS.has(localName) && !without.has(localName),
  );
  SENT.set(message.typeName, new Set(fields.map(({ number }) => number)));
  for (const { message: part } of fields) if (part) addSent(part);
}

/** A descriptor as text, with one character for each byte. */
function shortened(base64: string): string {
  const file = fromBinary(FileDescriptorProtoSchema, Buffer.from(base64, 'base64'));
  if (file.package !== 'rms.portal.v1' && file.package.startsWith('rms.')) shorten(file);
  return atob(base64Encode(toBinary(FileDescriptorProtoSchema, file)));
}

/** Removes what the page does not have. Other messages keep their places, because the generated code counts them. */
function shorten(file: FileDescriptorProto): void {
  let others = 0;
  const shortenMessage = (message: DescriptorProto, scope: string): void => {
    const name = `${scope}.${message.name}`;
    for (const nested of message.nestedType) shortenMessage(nested, name);
    if (message.options?.mapEntry) return;
    const sent = SENT.get(name);
    if (sent) keepFields(message, sent);
    else Object.assign(message, { name: `_${others++}`, field: [], oneofDecl: [], enumType: [] });
  };
  for (const message of file.messageType) shortenMessage(message, file.package);
  for (const service of file.service) {
    const of = `${file.package}.${service.name}`;
    service.method = service.method.filter(({ name }) => CALLED.has(`${of}/${name}`));
  }
}

function keepFields(message: DescriptorProto, numbers: ReadonlySet<number>): void {
  const kept = message.field.filter(({ number }) => numbers.has(number));
  const inOneof = kept.filter((field) => Object.hasOwn(field, 'oneofIndex'));
  const oneofs = [...new Set(inOneof.map(({ oneofIndex }) => oneofIndex))].toSorted(
    (a, b) => a - b,
  );
  message.oneofDecl = message.oneofDecl.filter((_, index) => oneofs.includes(index));
  for (const field of inOneof) field.oneofIndex = oneofs.indexOf(field.oneofIndex);
  message.field = kept;
}

/** The protos that import one another, which compress better in one file. */
const RETURN_PROTOS = /returns\/v1\/(?:policy|returns?)_pb/;

/** The protos that every page about webhooks needs. */
const WEBHOOK_PROTOS = /webhooks\/v1\/webhooks_pb/;

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  base: '/portal/',
  html: { cspNonce: NONCE_PLACEHOLDER },
  clearScreen: false,
  logLevel: 'warn',
  plugins: [shortDescriptors, bundledPackages],
  build: {
    target: 'es2022',
    manifest: true,
    // The policy of the page allows no `data:` addresses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      // Mantine marks its files with "use client", which means nothing in a bundle.
      onLog: (level, log, show) => {
        if (log.code !== 'MODULE_LEVEL_DIRECTIVE') show(level, log);
      },
      output: {
        // What most pages need compresses better in one file.
        codeSplitting: {
          groups: [
            { name: 'base', test: BASE },
            { name: 'parts', test: PARTS, minShareCount: 5 },
            { name: 'fields', test: FIELDS, minShareCount: 3 },
            { name: 'webhooks_pb', test: WEBHOOK_PROTOS },
            // Before those that import it: a file takes what it imports with it.
            { name: 'address_pb', test: /returns\/v1\/address_pb/ },
            { name: 'returns_pb', test: RETURN_PROTOS },
          ],
        },
      },
    },
  },
  server: {
    proxy: { '/portal/api': process.env.PORTAL_GATEWAY ?? 'http://127.0.0.1:8080' },
  },
});
