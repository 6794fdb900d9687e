import { NOT_FOUND } from './errors.ts';
import { body, keyRules, type Operation } from './operation.ts';
import { destination, destinationBody, destinationList } from './resources/destination.ts';
import * as shapes from './resources/errors.ts';

/** The operations on warehouses and donation centres. */
export const DESTINATION_OPERATIONS: readonly Operation[] = [
  {
    ...keyRules,
    id: 'listDestinations',
    method: 'GET',
    path: '/destinations',
    scope: 'destinations:read',
    success: { status: 200, schema: destinationList },
    addition: true,
    summary: 'List destinations',
    description:
      "All of the shop's warehouses and donation centres, by ascending id. A shop has at most 1,000.",
    tag: 'Destinations',
    errors: {},
  },
  {
    ...keyRules,
    id: 'getDestination',
    method: 'GET',
    path: '/destinations/{id}',
    scope: 'destinations:read',
    notFound: NOT_FOUND.destination,
    success: { status: 200, schema: destination },
    addition: true,
    summary: 'Get destination',
    description: 'A warehouse or donation centre.',
    tag: 'Destinations',
    errors: { 404: [shapes.destinationNotFound] },
  },
  {
    ...keyRules,
    id: 'updateDestination',
    method: 'PUT',
    path: '/destinations/{id}',
    scope: 'destinations:write',
    notFound: NOT_FOUND.destination,
    body: body(destinationBody),
    success: { status: 200, schema: destination },
    summary: 'Update destination',
    description: 'Changes a warehouse or donation centre. Absent fields keep their values.',
    tag: 'Destinations',
    errors: { 404: [shapes.destinationNotFound], 422: [shapes.messageError] },
  },
];
