// Package serving provides the webhook server: its certificate, its bounds, and which
// clients may ask.
//
// A request passes these checks, in this order. A refused request costs little, because its
// body is not read before the checks that need no body.
//
//	connection  the source address, and how many connections are open
//	TLS         a client certificate, if one is given, is of the clients' authority
//	request     method, the source address again, certificate where one is required, declared length
//	body        length, and how many values the decoder would have to make; the bodies that
//	            wait share a room
//	lane        few requests are handled at a time; large ones one after the other, and
//	            conversions apart from admissions. One namespace cannot take all places
//	answer      the answers that clients have not read share a room
package serving

// ConversionPath is the path of the conversion webhook.
const ConversionPath = "/convert"
