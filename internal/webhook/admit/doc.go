// Package admit answers for pods that are being created.
package admit
