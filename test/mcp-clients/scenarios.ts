import type { Revision } from '../kit/mcp/assistant.ts';

/**
 * Scenarios of @modelcontextprotocol/conformance that a product's server must pass. The package runs
 * them against a server built for it, with tools of given names; these need no such tools.
 */
export const MUST_PASS: Readonly<Record<Revision, readonly string[]>> = {
  '2025-11-25': [
    'server-initialize',
    'ping',
    'tools-list',
    'dns-rebinding-protection',
    'server-session-lifecycle',
    'prompts-list',
    'resources-list',
  ],
  '2026-07-28': [
    'server-stateless',
    'tools-list',
    'dns-rebinding-protection',
    'caching',
    'http-header-validation',
    'server-sse-multiple-streams',
    'prompts-list',
    'resources-list',
    'sep-2164-resource-not-found',
  ],
};

const TEST_TOOL = 'calls a tool that only a server made for the suite has';
const TEST_PROMPT = 'gets a prompt that only a server made for the suite has';
const TEST_RESOURCE = 'reads a resource that only a server made for the suite has';
const NO_SESSIONS = 'needs a session; the server keeps none';
const NOTHING_ASKED = 'needs a tool that asks the client back; ours ask nothing';

/** Why a scenario says nothing about this server, by its name. */
export const NOT_APPLICABLE: Readonly<Record<string, string>> = {
  'logging-set-level': 'the server sends no log messages and does not announce the capability',
  'completion-complete': 'the server completes no arguments and does not announce the capability',
  'tools-call-simple-text': TEST_TOOL,
  'tools-call-image': TEST_TOOL,
  'tools-call-audio': TEST_TOOL,
  'tools-call-embedded-resource': TEST_TOOL,
  'tools-call-mixed-content': TEST_TOOL,
  'tools-call-with-logging': TEST_TOOL,
  'tools-call-error': TEST_TOOL,
  'tools-call-with-progress': TEST_TOOL,
  'tools-call-sampling': NOTHING_ASKED,
  'tools-call-elicitation': NOTHING_ASKED,
  'json-schema-2020-12': TEST_TOOL,
  'elicitation-sep1034-defaults': NOTHING_ASKED,
  'elicitation-sep1330-enums': NOTHING_ASKED,
  'server-sse-polling': NO_SESSIONS,
  'server-sse-multiple-streams on 2025-11-25': NO_SESSIONS,
  'resources-read-text': TEST_RESOURCE,
  'resources-read-binary': TEST_RESOURCE,
  'resources-templates-read': TEST_RESOURCE,
  'resources-subscribe': 'the one resource never changes; subscriptions are not announced',
  'resources-unsubscribe': 'the one resource never changes; subscriptions are not announced',
  'prompts-get-simple': TEST_PROMPT,
  'prompts-get-with-args': TEST_PROMPT,
  'prompts-get-embedded-resource': TEST_PROMPT,
  'prompts-get-with-image': TEST_PROMPT,
  'http-custom-header-server-validation': 'no tool of ours takes arguments from headers',
  'input-required-result-basic-elicitation': NOTHING_ASKED,
  'input-required-result-basic-sampling': NOTHING_ASKED,
  'input-required-result-basic-list-roots': NOTHING_ASKED,
  'input-required-result-request-state': NOTHING_ASKED,
  'input-required-result-multiple-input-requests': NOTHING_ASKED,
  'input-required-result-multi-round': NOTHING_ASKED,
  'input-required-result-missing-input-response': NOTHING_ASKED,
  'input-required-result-non-tool-request': NOTHING_ASKED,
  'input-required-result-result-type': NOTHING_ASKED,
  'input-required-result-unsupported-methods': NOTHING_ASKED,
  'input-required-result-tampered-state': NOTHING_ASKED,
  'input-required-result-capability-check': NOTHING_ASKED,
  'input-required-result-ignore-extra-params': NOTHING_ASKED,
  'input-required-result-validate-input': NOTHING_ASKED,
};

/** Checks inside `server-stateless` that the suite itself calls not testable without its own tools. */
export const UNTESTABLE_CHECKS: Readonly<Record<string, string>> = {
  'sep-2575-server-rejects-undeclared-capability':
    'no tool of ours needs a capability of the client',
  'sep-2575-missing-capability-http-400': 'no tool of ours needs a capability of the client',
  'sep-2575-http-server-no-independent-requests-on-stream': 'no tool of ours asks the client back',
  'sep-2575-server-no-log-without-loglevel': 'the server sends no log messages',
};
