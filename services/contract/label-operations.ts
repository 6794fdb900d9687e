import { NOT_FOUND } from './errors.ts';
import { body, labelRules, type Operation } from './operation.ts';
import * as shapes from './resources/errors.ts';
import { labelBody, labelUpdateBody, recordedLabel } from './resources/label.ts';

/** The operations of label providers, who respond to `label.request.issued`. */
export const LABEL_OPERATIONS: readonly Operation[] = [
  {
    ...labelRules,
    id: 'recordLabel',
    method: 'POST',
    path: '/returns/{id}/labels',
    notFound: NOT_FOUND.return,
    body: body(labelBody),
    keyed: 'content',
    success: { status: 201, schema: recordedLabel },
    summary: 'Record label',
    description:
      'Adds a label to a return and fulfils its open label request: the response to `label.request.issued`. A repeat with the same `Idempotency-Key` and content returns the same label; without the header, a repeat with the same content does. A closed or cancelled return is rejected (409). The events `label.created` and `return.updated` follow.',
    errors: {
      404: [shapes.errorsMessage],
      409: [shapes.errorsMessage],
      422: [shapes.messageError],
    },
  },
  {
    ...labelRules,
    id: 'updateLabel',
    method: 'PUT',
    path: '/labels/{id}',
    notFound: NOT_FOUND.label,
    body: body(labelUpdateBody),
    success: { status: 200, schema: recordedLabel },
    summary: 'Update label',
    description:
      'Records a carrier update. An update that is older than the last one, or that comes after `delivered`, changes nothing and is not an error. The response is the label as it is now. The events `label.updated` and `return.updated` follow a change.',
    errors: { 404: [shapes.errorsMessage], 422: [shapes.messageError] },
  },
];
