package persistence

import (
	"encoding"
	"encoding/json"
	"errors"
	"net/netip"
	"strconv"
	"unicode/utf8"
)

// form writes records, and reads records of exactly the form that it writes: one function names the fields of a record for
// both. The first use of encoding/json for a type costs 0.2 ms, and each verb is a process. So encoding/json only reads
// what has another form, such as the records of other versions.
type form struct {
	data  []byte // written so far, or left to read
	reads bool
	err   error
}

// errOtherForm is returned for a record that has another form than form writes.
var errOtherForm = errors.New("other form")

// encode returns a record with its checksum.
func encode(fields func(*form)) ([]byte, error) {
	f := form{data: make([]byte, 0, 512)}
	if fields(&f); f.err != nil {
		return nil, f.err
	}
	return seal(f.data), nil
}

// decode reads a record: by its fields, or else by a function that uses encoding/json.
func decode(data []byte, fields func(*form), other func() error) error {
	body, err := unseal(data)
	if err != nil {
		return err
	}
	if len(body) == len(data) { // without a checksum, and with the closing brace
		return other()
	}
	f := form{data: body, reads: true}
	if fields(&f); f.err == nil && len(f.data) == 0 {
		return nil
	}
	return other()
}

// at writes or reads what stands before a value. It reports whether the value is to be written or read.
func (f *form) at(before string) bool {
	switch {
	case f.err != nil:
	case !f.reads:
		f.data = append(f.data, before...)
	case f.next(before):
		f.data = f.data[len(before):]
	default:
		f.err = errOtherForm
	}
	return f.err == nil
}

// may is at for a value that is left out when it is zero.
func (f *form) may(before string, zero bool) bool {
	if f.reads && !f.next(before) || !f.reads && zero {
		return false
	}
	return f.at(before)
}

// next reports whether the text comes next.
func (f *form) next(text string) bool {
	return len(f.data) >= len(text) && string(f.data[:len(text)]) == text
}

// plain returns the length of the longest beginning of a text that JSON has without escapes.
func plain[T string | []byte](text T) int {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c == '"', c == '\\', c == '<', c == '>', c == '&', c >= utf8.RuneSelf:
			return i
		}
	}
	return len(text)
}

// quoted reads a text without escapes. The bytes are those of the record.
func (f *form) quoted() (text []byte) {
	if f.at(`"`) {
		n := plain(f.data)
		text, f.data = f.data[:n], f.data[n:]
	}
	f.at(`"`)
	return text
}

func (f *form) text(before string, v *string) {
	switch {
	case !f.at(before):
	case f.reads:
		*v = string(f.quoted())
	default:
		f.data = appendText(f.data, *v)
	}
}

func (f *form) mayText(before string, v *string) {
	if f.may(before, *v == "") {
		f.text("", v)
	}
}

// integer writes or reads an integer.
func integer[T ~int | ~int64 | ~uint64 | ~uint8](f *form, before string, v *T) {
	switch {
	case !f.at(before):
		return
	case !f.reads:
		f.data = appendInteger(f.data, *v)
		return
	}
	n := 0
	for n < len(f.data) && (f.data[n] == '-' || '0' <= f.data[n] && f.data[n] <= '9') {
		n++
	}
	text := string(f.data[:n])
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		*v = T(i)
	} else if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		*v = T(u)
	}
	if f.data = f.data[n:]; string(appendInteger(nil, *v)) != text { // no number, one with a leading zero, or too large for its type
		f.err = errOtherForm
	}
}

func mayInteger[T ~int | ~int64 | ~uint64 | ~uint8](f *form, before string, v *T) {
	if f.may(before, *v == 0) {
		integer(f, "", v)
	}
}

func appendInteger[T ~int | ~int64 | ~uint64 | ~uint8](b []byte, v T) []byte {
	if v < 0 {
		return strconv.AppendInt(b, int64(v), 10)
	}
	return strconv.AppendUint(b, uint64(v), 10)
}

// mayTrue writes or reads a truth value that is left out when it is false.
func (f *form) mayTrue(before string, v *bool) {
	if f.may(before, !*v) {
		*v = f.at("true")
	}
}

// value writes or reads a value that is a text in JSON.
func (f *form) value(v interface {
	encoding.TextMarshaler
	encoding.TextUnmarshaler
},
) {
	if f.reads {
		if text := f.quoted(); f.err == nil && v.UnmarshalText(text) != nil {
			f.err = errOtherForm
		}
		return
	}
	text, err := v.MarshalText()
	f.data, f.err = appendText(f.data, string(text)), err
}

func (f *form) addresses(before string, v *[]netip.Addr) {
	if !f.at(before) || f.may("null", *v != nil) || !f.at("[") {
		return
	}
	if f.reads {
		*v = []netip.Addr{}
	}
	for i := 0; f.err == nil && (f.reads && !f.next("]") || !f.reads && i < len(*v)); i++ {
		if i > 0 {
			f.at(",")
		}
		if f.reads {
			*v = append(*v, netip.Addr{})
		}
		f.value(&(*v)[i])
	}
	f.at("]")
}

// appendText appends a text as JSON.
func appendText(b []byte, text string) []byte {
	if plain(text) < len(text) {
		quoted, _ := json.Marshal(text) // a text always encodes
		return append(b, quoted...)
	}
	return append(append(append(b, '"'), text...), '"')
}
