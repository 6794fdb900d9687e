import { fileURLToPath } from 'node:url';
import { defineConfig, type Plugin } from 'vite';

/** The gateway replaces this in `index.html` with the nonce of each response (gateway/portal). */
const NONCE_PLACEHOLDER = '__CSP_NONCE__';

/** What every page needs: the libraries, and the protos that all others import. */
const BASE =
  /node_modules\/(?:react|react-dom|scheduler|clsx|@tanstack|@bufbuild|@connectrpc|@mantine\/(?:hooks|core\/esm\/core))\/|portal\/v1\/(?:access|common)_pb/;

/** What only pages with filters and forms need. */
const FIELDS =
  /@mantine\/core\/esm\/components\/(?:Combobox|Input|NativeSelect|Text(?:Input|area))/;

/** Parts of the page itself, without those of dialogs, which are loaded when one opens, and of filters. */
const PARTS =
  /portal\/src\/(?:api|parts|session|words)(?!\/(?:dialog|filters|form-modal|field-errors))|@mantine\/core\/esm\/components\/(?!Combobox|Input|NativeSelect|Text(?:Input|area))/;

/**
 * Writes the descriptors of the protos as text. As base64 they compress badly, because equal names begin at different
 * bits.
 */
const descriptorsAsText: Plugin = {
  name: 'descriptors-as-text',
  transform: {
    filter: { id: /\/proto\/gen\/.*_pb\.ts$/ },
    handler: (code) => ({
      code: code.replace(
        /fileDesc\("([\w+/=]+)"/g,
        (_, base64: string) => `fileDesc(btoa(${JSON.stringify(atob(base64))})`,
      ),
      map: null,
    }),
  },
};

/** The protos that every page about webhooks needs. */
const WEBHOOK_PROTOS = /portal\/v1\/(?:webhooks|deliveries|replays)_pb/;

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  base: '/portal/',
  html: { cspNonce: NONCE_PLACEHOLDER },
  clearScreen: false,
  logLevel: 'warn',
  plugins: [descriptorsAsText],
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
          ],
        },
      },
    },
  },
  server: {
    proxy: { '/portal/api': process.env.PORTAL_GATEWAY ?? 'http://127.0.0.1:8080' },
  },
});
