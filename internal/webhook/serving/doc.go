// Package serving provides what the webhook server needs beside its handlers: the
// certificate, and the path of conversions.
package serving

// ConversionPath is the path of the conversion webhook.
const ConversionPath = "/convert"
