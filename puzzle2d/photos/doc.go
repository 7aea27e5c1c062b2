// Package photos turns a folder of photographs into a prepared folder, which training reads without
// decoding anything: 8-bit RGB of one size, mapped into memory.
//
// Start at [Prepare] to make one and at [Open] to read it: [Store.At] is a photograph's pixels,
// [Store.Record] what is known of it. [Find] alone says what a folder holds: any tree of
// photographs is a data set, its subfolders are classes, and ImageNet's, Tiny ImageNet's, Pascal
// VOC's and Caltech's layouts bring their splits along. How a file is decoded and resized is
// internal/photo's business; what is done with the pixels that of puzzle2d.
package photos
