import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { propertyNames } from '../../test/kit/arbitrary-request.ts';
import { documentedOperations } from '../../test/kit/openapi.ts';
import { openapiDocument } from './openapi/document.ts';
import { OPERATIONS } from './operations.ts';
import { validateBody } from './validate.ts';

const document = openapiDocument('unstable');
const names = documentedOperations(document).flatMap(({ body }) => propertyNames(body, document));
const hostileBodies = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom(
      null,
      true,
      0,
      1,
      -0,
      1e300,
      Number.POSITIVE_INFINITY,
      '',
      ' ',
      '\0',
      '\ud800',
      'other',
      'return',
    ),
    fc.string({ unit: 'binary' }),
    fc.array(tie('value'), { maxLength: 3 }),
    tie('object'),
  ),
  object: fc.dictionary(fc.oneof(fc.constantFrom(...names), fc.string()), tie('value')),
})).object;

test('no body makes the validator throw, or gets a message of the library', () => {
  const operations = OPERATIONS.filter(({ body }) => body).map(({ id }) => id);
  const wording = /^.+ (must|is required).*\.$/s;
  fc.assert(
    fc.property(fc.constantFrom(...operations), hostileBodies, (operation, body) => {
      const result = validateBody(operation, 'unstable', body);
      if (!result.ok) expect(result.message).toMatch(wording);
    }),
    { numRuns: 2000 },
  );
});
