// Built by scripts/web; licences of what is built in: /a/licenses.txt
var t=globalThis,i=t4=>t4,s=t.trustedTypes,e=s?s.createPolicy("lit-html",{createHTML:t4=>t4}):void 0,h="$lit$",o=`lit$${Math.
random().toFixed(9).slice(2)}$`,n="?"+o,r=`<${n}>`,l=document,c=()=>l.createComment(""),a=t4=>t4===null||typeof t4!="obj\
ect"&&typeof t4!="function",u=Array.isArray,d=t4=>u(t4)||typeof t4?.[Symbol.iterator]=="function",f=`[ 	
\f\r]`,v=/<(?:(!--|\/[^a-zA-Z])|(\/?[a-zA-Z][^>\s]*)|(\/?$))/g,_=/-->/g,m=/>/g,p=RegExp(`>|${f}(?:([^\\s"'>=/]+)(${f}*=${f}\
*(?:[^ 	
\f\r"'\`<>=]|("|')|))|$)`,"g"),g=/'/g,$=/"/g,y=/^(?:script|style|textarea|title)$/i,x=t4=>(i4,...s3)=>({_$litType$:t4,strings:i4,
values:s3}),b=x(1),w=x(2),T=x(3),E=Symbol.for("lit-noChange"),A=Symbol.for("lit-nothing"),C=new WeakMap,P=l.createTreeWalker(
l,129);function V(t4,i4){if(!u(t4)||!t4.hasOwnProperty("raw"))throw Error("invalid template strings array");return e!==void 0?
e.createHTML(i4):i4}var N=(t4,i4)=>{let s3=t4.length-1,e3=[],n2,l2=i4===2?"<svg>":i4===3?"<math>":"",c3=v;for(let i5=0;i5<
s3;i5++){let s4=t4[i5],a2,u4,d2=-1,f2=0;for(;f2<s4.length&&(c3.lastIndex=f2,u4=c3.exec(s4),u4!==null);)f2=c3.lastIndex,c3===
v?u4[1]==="!--"?c3=_:u4[1]!==void 0?c3=m:u4[2]!==void 0?(y.test(u4[2])&&(n2=RegExp("</"+u4[2],"g")),c3=p):u4[3]!==void 0&&
(c3=p):c3===p?u4[0]===">"?(c3=n2??v,d2=-1):u4[1]===void 0?d2=-2:(d2=c3.lastIndex-u4[2].length,a2=u4[1],c3=u4[3]===void 0?
p:u4[3]==='"'?$:g):c3===$||c3===g?c3=p:c3===_||c3===m?c3=v:(c3=p,n2=void 0);let x2=c3===p&&t4[i5+1].startsWith("/>")?" ":
"";l2+=c3===v?s4+r:d2>=0?(e3.push(a2),s4.slice(0,d2)+h+s4.slice(d2)+o+x2):s4+o+(d2===-2?i5:x2)}return[V(t4,l2+(t4[s3]||"\
<?>")+(i4===2?"</svg>":i4===3?"</math>":"")),e3]},S=class _S{constructor({strings:t4,_$litType$:i4},e3){let r2;this.parts=
[];let l2=0,a2=0,u4=t4.length-1,d2=this.parts,[f2,v3]=N(t4,i4);if(this.el=_S.createElement(f2,e3),P.currentNode=this.el.
content,i4===2||i4===3){let t5=this.el.content.firstChild;t5.replaceWith(...t5.childNodes)}for(;(r2=P.nextNode())!==null&&
d2.length<u4;){if(r2.nodeType===1){if(r2.hasAttributes())for(let t5 of r2.getAttributeNames())if(t5.endsWith(h)){let i5=v3[a2++],
s3=r2.getAttribute(t5).split(o),e4=/([.?@])?(.*)/.exec(i5);d2.push({type:1,index:l2,name:e4[2],strings:s3,ctor:e4[1]==="\
."?I:e4[1]==="?"?L:e4[1]==="@"?z:H}),r2.removeAttribute(t5)}else t5.startsWith(o)&&(d2.push({type:6,index:l2}),r2.removeAttribute(
t5));if(y.test(r2.tagName)){let t5=r2.textContent.split(o),i5=t5.length-1;if(i5>0){r2.textContent=s?s.emptyScript:"";for(let s3=0;s3<
i5;s3++)r2.append(t5[s3],c()),P.nextNode(),d2.push({type:2,index:++l2});r2.append(t5[i5],c())}}}else if(r2.nodeType===8)
if(r2.data===n)d2.push({type:2,index:l2});else{let t5=-1;for(;(t5=r2.data.indexOf(o,t5+1))!==-1;)d2.push({type:7,index:l2}),
t5+=o.length-1}l2++}}static createElement(t4,i4){let s3=l.createElement("template");return s3.innerHTML=t4,s3}};function M(t4,i4,s3=t4,e3){
if(i4===E)return i4;let h3=e3!==void 0?s3._$Co?.[e3]:s3._$Cl,o2=a(i4)?void 0:i4._$litDirective$;return h3?.constructor!==
o2&&(h3?._$AO?.(!1),o2===void 0?h3=void 0:(h3=new o2(t4),h3._$AT(t4,s3,e3)),e3!==void 0?(s3._$Co??=[])[e3]=h3:s3._$Cl=h3),
h3!==void 0&&(i4=M(t4,h3._$AS(t4,i4.values),h3,e3)),i4}var R=class{constructor(t4,i4){this._$AV=[],this._$AN=void 0,this.
_$AD=t4,this._$AM=i4}get parentNode(){return this._$AM.parentNode}get _$AU(){return this._$AM._$AU}u(t4){let{el:{content:i4},
parts:s3}=this._$AD,e3=(t4?.creationScope??l).importNode(i4,!0);P.currentNode=e3;let h3=P.nextNode(),o2=0,n2=0,r2=s3[0];
for(;r2!==void 0;){if(o2===r2.index){let i5;r2.type===2?i5=new k(h3,h3.nextSibling,this,t4):r2.type===1?i5=new r2.ctor(h3,
r2.name,r2.strings,this,t4):r2.type===6&&(i5=new Z(h3,this,t4)),this._$AV.push(i5),r2=s3[++n2]}o2!==r2?.index&&(h3=P.nextNode(),
o2++)}return P.currentNode=l,e3}p(t4){let i4=0;for(let s3 of this._$AV)s3!==void 0&&(s3.strings!==void 0?(s3._$AI(t4,s3,
i4),i4+=s3.strings.length-2):s3._$AI(t4[i4])),i4++}},k=class _k{get _$AU(){return this._$AM?._$AU??this._$Cv}constructor(t4,i4,s3,e3){
this.type=2,this._$AH=A,this._$AN=void 0,this._$AA=t4,this._$AB=i4,this._$AM=s3,this.options=e3,this._$Cv=e3?.isConnected??
!0}get parentNode(){let t4=this._$AA.parentNode,i4=this._$AM;return i4!==void 0&&t4?.nodeType===11&&(t4=i4.parentNode),t4}get startNode(){
return this._$AA}get endNode(){return this._$AB}_$AI(t4,i4=this){t4=M(this,t4,i4),a(t4)?t4===A||t4==null||t4===""?(this.
_$AH!==A&&this._$AR(),this._$AH=A):t4!==this._$AH&&t4!==E&&this._(t4):t4._$litType$!==void 0?this.$(t4):t4.nodeType!==void 0?
this.T(t4):d(t4)?this.k(t4):this._(t4)}O(t4){return this._$AA.parentNode.insertBefore(t4,this._$AB)}T(t4){this._$AH!==t4&&
(this._$AR(),this._$AH=this.O(t4))}_(t4){this._$AH!==A&&a(this._$AH)?this._$AA.nextSibling.data=t4:this.T(l.createTextNode(
t4)),this._$AH=t4}$(t4){let{values:i4,_$litType$:s3}=t4,e3=typeof s3=="number"?this._$AC(t4):(s3.el===void 0&&(s3.el=S.createElement(
V(s3.h,s3.h[0]),this.options)),s3);if(this._$AH?._$AD===e3)this._$AH.p(i4);else{let t5=new R(e3,this),s4=t5.u(this.options);
t5.p(i4),this.T(s4),this._$AH=t5}}_$AC(t4){let i4=C.get(t4.strings);return i4===void 0&&C.set(t4.strings,i4=new S(t4)),i4}k(t4){
u(this._$AH)||(this._$AH=[],this._$AR());let i4=this._$AH,s3,e3=0;for(let h3 of t4)e3===i4.length?i4.push(s3=new _k(this.
O(c()),this.O(c()),this,this.options)):s3=i4[e3],s3._$AI(h3),e3++;e3<i4.length&&(this._$AR(s3&&s3._$AB.nextSibling,e3),i4.
length=e3)}_$AR(t4=this._$AA.nextSibling,s3){for(this._$AP?.(!1,!0,s3);t4!==this._$AB;){let s4=i(t4).nextSibling;i(t4).remove(),
t4=s4}}setConnected(t4){this._$AM===void 0&&(this._$Cv=t4,this._$AP?.(t4))}},H=class{get tagName(){return this.element.tagName}get _$AU(){
return this._$AM._$AU}constructor(t4,i4,s3,e3,h3){this.type=1,this._$AH=A,this._$AN=void 0,this.element=t4,this.name=i4,
this._$AM=e3,this.options=h3,s3.length>2||s3[0]!==""||s3[1]!==""?(this._$AH=Array(s3.length-1).fill(new String),this.strings=
s3):this._$AH=A}_$AI(t4,i4=this,s3,e3){let h3=this.strings,o2=!1;if(h3===void 0)t4=M(this,t4,i4,0),o2=!a(t4)||t4!==this.
_$AH&&t4!==E,o2&&(this._$AH=t4);else{let e4=t4,n2,r2;for(t4=h3[0],n2=0;n2<h3.length-1;n2++)r2=M(this,e4[s3+n2],i4,n2),r2===
E&&(r2=this._$AH[n2]),o2||=!a(r2)||r2!==this._$AH[n2],r2===A?t4=A:t4!==A&&(t4+=(r2??"")+h3[n2+1]),this._$AH[n2]=r2}o2&&!e3&&
this.j(t4)}j(t4){t4===A?this.element.removeAttribute(this.name):this.element.setAttribute(this.name,t4??"")}},I=class extends H{constructor(){
super(...arguments),this.type=3}j(t4){this.element[this.name]=t4===A?void 0:t4}},L=class extends H{constructor(){super(...arguments),
this.type=4}j(t4){this.element.toggleAttribute(this.name,!!t4&&t4!==A)}},z=class extends H{constructor(t4,i4,s3,e3,h3){super(
t4,i4,s3,e3,h3),this.type=5}_$AI(t4,i4=this){if((t4=M(this,t4,i4,0)??A)===E)return;let s3=this._$AH,e3=t4===A&&s3!==A||t4.
capture!==s3.capture||t4.once!==s3.once||t4.passive!==s3.passive,h3=t4!==A&&(s3===A||e3);e3&&this.element.removeEventListener(
this.name,this,s3),h3&&this.element.addEventListener(this.name,this,t4),this._$AH=t4}handleEvent(t4){typeof this._$AH=="\
function"?this._$AH.call(this.options?.host??this.element,t4):this._$AH.handleEvent(t4)}},Z=class{constructor(t4,i4,s3){
this.element=t4,this.type=6,this._$AN=void 0,this._$AM=i4,this.options=s3}get _$AU(){return this._$AM._$AU}_$AI(t4){M(this,
t4)}},j={M:h,P:o,A:n,C:1,L:N,R,D:d,V:M,I:k,H,N:L,U:z,B:I,F:Z},B=t.litHtmlPolyfillSupport;B?.(S,k),(t.litHtmlVersions??=[]).
push("3.3.3");var D=(t4,i4,s3)=>{let e3=s3?.renderBefore??i4,h3=e3._$litPart$;if(h3===void 0){let t5=s3?.renderBefore??null;
e3._$litPart$=h3=new k(i4.insertBefore(c(),t5),t5,void 0,s3??{})}return h3._$AI(t4),h3};function rowOf([start2,length,at,parts,missing,wait,left]){return{start:start2,length,at,parts:parts.map(([offset,size,first,
last,path,flags])=>({from:offset,to:offset+size,first:at+first,last:at+last,path,backward:(flags&1)!==0,why:flags&2?"cop\
y":flags&4?"again":"new"})),missing:missing.map(([offset,size])=>[offset,offset+size]),wait:wait&&{from:wait[0],to:wait[0]+
wait[1],ms:wait[2]},left}}var Cloth=class{cut="fixed";every=1;leftOut=0;knownTo=null;gaps=[];last=-1/0;byStart=new Map;add({
since,cut,every,left_out,known_to,rows},now){since!==void 0&&since>this.last&&this.gaps.push([this.last,since]),this.last=
Math.max(this.last,now),this.gaps.length>64&&this.gaps.splice(0,2,[-1/0,this.gaps[1][1]]),cut!==this.cut&&this.byStart.clear(),
this.cut=cut,this.leftOut=left_out,this.knownTo=known_to,rows.length>0&&(this.every=every);for(let wire of rows){let row=rowOf(
wire);this.byStart.set(row.start,row)}let over=this.byStart.size-4e3;if(over>0)for(let row of this.rows().slice(0,over))
this.byStart.delete(row.start)}rows(){return[...this.byStart.values()].sort((a2,b2)=>a2.at-b2.at||a2.start-b2.start)}bytes(){
let sum2=0;for(let row of this.byStart.values())sum2+=row.length;return sum2}},Weave=class{constructor(connection){this.
connection=connection}connection;over=!1;now=0;names={};sent=new Cloth;received=new Cloth;take(message){message.over&&(this.
over=!0),message.now!==void 0&&(this.now=message.now),message.names&&(this.names=message.names),message.sent&&this.sent.
add(message.sent,this.now),message.received&&this.received.add(message.received,this.now)}busier(){return this.received.
bytes()>4*this.sent.bytes()?"received":"sent"}name(path){return this.names[path]??`path ${path}`}};function placesOf(names,lines,colors){
let places=new Map,paths2=Object.keys(names).map(Number).sort((a2,b2)=>a2-b2),free=new Set(Array.from({length:colors},(_3,color)=>color));
for(let path of paths2){let color=lines.find(line=>line.name===names[path])?.color;color!==void 0&&free.delete(color%colors)&&
places.set(path,color%colors)}let ofLines=new Set(lines.map(({color})=>color%colors));for(let path of paths2.filter(path2=>!places.
has(path2))){let color=[...free].find(one=>!ofLines.has(one))??[...free][0];free.delete(color),places.set(path,color??path%
colors)}return places}function repeated(row){return row.parts.reduce((sum2,part)=>sum2+(part.why==="new"?0:part.to-part.
from),0)}function telling(rows){let by=[row=>row.parts.reduce((sum2,part)=>sum2+(part.why==="again"?part.to-part.from:0),
0),row=>row.wait?.ms??0,repeated];for(let shows of by){let most=rows.reduce((best,row)=>shows(row)>(best?shows(best):0)?
row:best,void 0);if(most)return most}return rows[1]}function filled(row){return row.parts.reduce((last,part)=>part.why===
"new"?Math.max(last,part.last):last,row.at)}function choose(rows,from,to,slots){let chosen=new Array(slots).fill(void 0),
slotOf=at=>Math.max(0,Math.min(slots-1,Math.floor((to-at)/(to-from)*slots))),shows=row=>(row.wait?.ms??0)*1e12+repeated(
row);for(let row of rows){if(row.at<from||row.at>to)continue;let slot=slotOf(row.at),other=chosen[slot];(!other||shows(other)<
shows(row))&&(chosen[slot]=row)}let begun=new Set(chosen),going=[...chosen];for(let row of rows)if(!(row.at>to||filled(row)<
from||row.at>=from&&!begun.has(row))){for(let part of row.parts)if(!(part.why!=="new"||part.first>to||part.last<from))for(let slot=slotOf(
Math.max(from,part.first));slot>=slotOf(part.last);slot--)chosen[slot]||(going[slot]=row)}return going}function within(rows,from,to){
return rows.filter(row=>row.at<=to&&filled(row)>=from)}function eachOnce(slots){return[...new Set([...slots].reverse())].
reverse().filter(row=>row!==void 0)}function shares(rows){let bytes2=new Map,sum2=0;for(let row of rows)for(let{path,from,
to,why}of row.parts)why==="new"&&(bytes2.set(path,(bytes2.get(path)??0)+to-from),sum2+=to-from);return new Map([...bytes2].
sort((a2,b2)=>a2[0]-b2[0]).map(([path,n2])=>[path,n2/sum2]))}function palette(place){let style2=getComputedStyle(document.documentElement),of=name=>style2.getPropertyValue(name).trim();
return{ink:of("--ink"),soft:of("--soft"),grid:of("--grid"),ground:of("--card"),error:of("--error"),of:path=>of(`--c${place(
path)%12}`)}}function number(value){if(value==null)return"–";let size=Math.abs(value),digits=size>=100||size===0?0:size>=10?1:2;return value.
toFixed(digits)}function rate(value){return value==null?"–":value<.005?"0":number(value)}function percent(value){return value==
null?"–":value===0?"0":(value*100).toFixed(value<.1?2:1)}function bytes(value){return value==null?"–":value<1e4?`${Math.
round(value)} B`:value<1e7?`${(value/1e3).toFixed(1)} kB`:value<1e10?`${(value/1e6).toFixed(1)} MB`:`${(value/1e9).toFixed(
1)} GB`}function duration(seconds){let whole=Math.max(0,Math.floor(seconds)),parts=[[Math.floor(whole/86400),"d"],[Math.
floor(whole/3600)%24,"h"],[Math.floor(whole/60)%60,"min"],[whole%60,"s"]],first=parts.findIndex(([count])=>count>0);return first<
0?"0 s":parts.slice(first,first+2).filter(([count])=>count>0).map(([count,unit])=>`${count} ${unit}`).join(" ")}var two=value=>String(
value).padStart(2,"0"),LONGEST_RUN=1e9;function clock(seconds){let date=new Date(seconds*1e3);return seconds>=LONGEST_RUN?
`${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`:seconds<0?"":`${Math.floor(seconds/60)}:${two(
Math.floor(seconds%60))}`}function scrolled(label,table2){return b`<div class="scroll" role="region" tabindex="0" aria-label=${label}>${table2}</div>`}function begin(canvas,height){let scale=window.devicePixelRatio||1,width=Math.max(160,Math.floor(canvas.parentElement?.clientWidth??
160)),[wide,high]=[Math.round(width*scale),Math.round(height*scale)];canvas.width!==wide&&(canvas.width=wide),canvas.height!==
high&&(canvas.height=high),canvas.style.height=`${height}px`;let ctx=canvas.getContext("2d");return ctx.setTransform(scale,
0,0,scale,0,0),ctx.clearRect(0,0,width,height),ctx.font="11px system-ui, sans-serif",[ctx,width]}function stripes(ctx,x2,y2,w2,h3,slant,color){
ctx.save(),ctx.beginPath(),ctx.rect(x2,y2,w2,h3),ctx.clip(),ctx.strokeStyle=color,ctx.lineWidth=1.5,ctx.beginPath();for(let at=x2-
Math.abs(slant);at<x2+w2+Math.abs(slant);at+=4)ctx.moveTo(at,y2+h3),ctx.lineTo(at+slant,y2);ctx.stroke(),ctx.restore()}function drawPart(ctx,part,begins,place,palette2){
let[x2,y2,w2,h3]=place;ctx.fillStyle=palette2.of(part.path),ctx.fillRect(x2,y2,w2,h3),part.why==="copy"&&stripes(ctx,x2,
y2,w2,h3,h3,palette2.ground),part.why==="again"&&stripes(ctx,x2,y2,w2,h3,-h3,palette2.ink),part.why==="new"&&begins&&w2>=
20&&(ctx.fillStyle=palette2.ink,ctx.fillRect(part.backward?x2+w2-2:x2,y2,2,h3))}function isBegun(part,row){let goesOn=other=>other.
path===part.path&&other.why===part.why&&other.backward===part.backward&&(part.backward?other.from===part.to:other.to===part.
from);return!row.parts.some(goesOn)}function drawMissing(ctx,x2,y2,w2,h3,palette2){ctx.save(),ctx.globalAlpha=.65,ctx.fillStyle=
palette2.ground,ctx.fillRect(x2,y2,w2,h3),ctx.restore()}function drawWait(ctx,x2,y2,w2,h3,palette2){for(let[color,width]of[
[palette2.ground,4],[palette2.error,2]])ctx.strokeStyle=color,ctx.lineWidth=width,ctx.strokeRect(x2+1,y2,Math.max(2,w2-2),
h3)}function drawCloth(canvas,rows,shown,selected,palette2){let[ctx,width]=begin(canvas,rows.length*6+4),scale=width-64-
6,outlined=[];for(let slot of ticks(rows.length,shown))time(ctx,slot,rows.length,shown,palette2);let unknown2=unknownSlots(
rows,shown);for(let[from,to]of unknown2)unrecorded(ctx,from,to,scale,palette2);for(let slot=0,high=1;slot<rows.length;slot+=
high){let row=rows[slot],y2=slot*6+1;if(!row){if(high=1,unknown2.some(([from,to])=>from<=slot&&slot<to))continue;ctx.fillStyle=
palette2.grid,ctx.fillRect(64,y2+6/2,scale,1);continue}for(high=1;rows[slot+high]===row;)high++;let h3=high*6-1,x2=offset=>64+
Math.round(Math.max(0,Math.min(row.length,offset))/row.length*scale),wide=(from,to)=>Math.max(1,x2(to)-x2(from));for(let part of row.
parts)drawPart(ctx,part,row.parts.length<=10&&isBegun(part,row),[x2(part.from),y2,wide(part.from,part.to),h3],palette2);
for(let[from,to]of row.missing)drawMissing(ctx,x2(from),y2,wide(from,to),h3,palette2);let{wait}=row;wait&&outlined.push(
()=>drawWait(ctx,x2(wait.from),y2,wide(wait.from,wait.to),h3,palette2)),row===selected&&outlined.push(()=>{let middle=y2+
h3/2;ctx.fillStyle=palette2.ink,ctx.beginPath(),ctx.moveTo(57,middle-4),ctx.lineTo(63,middle),ctx.lineTo(57,middle+4),ctx.
fill()})}outlined.forEach(draw2=>draw2())}function unknownSlots(rows,{span,until,gaps:gaps2}){let found=[];return rows.forEach(
(row,slot)=>{let at=until-(slot+.5)/rows.length*span;if(row||!gaps2.some(([from,to])=>from<at&&at<to))return;let last=found.
at(-1);last?.[1]===slot?last[1]=slot+1:found.push([slot,slot+1])}),found}function unrecorded(ctx,from,to,scale,palette2){
let[y2,high]=[from*6+1,(to-from)*6];if(stripes(ctx,64,y2,scale,high,high,palette2.grid),high<18)return;let words2="not r\
ecorded";ctx.textAlign="center",ctx.textBaseline="middle";let wide=ctx.measureText(words2).width+12;ctx.fillStyle=palette2.
ground,ctx.fillRect(64+(scale-wide)/2,y2+high/2-8,wide,16),ctx.fillStyle=palette2.soft,ctx.fillText(words2,64+scale/2,y2+
high/2)}function ticks(slots,{span,until,isRun}){let step=[.25,.5,1,2,5,10,15,30,60].find(seconds=>span/1e6/seconds<=6)??
span/4e6,found=[0],first=isRun?until/1e6%step:step,last=isRun?Math.min(span,until):span,end=last*slots/span;for(let ago=first;ago*
1e6<last;ago+=step){let slot=ago*1e6*slots/span;slot>2.5&&slot<end-2.5&&found.push(slot)}return[...found,end]}function time(ctx,slot,slots,{
span,until,isRun},palette2){let ago=slot/slots*span,digits=span<8e6?2:1;ctx.fillStyle=palette2.soft,ctx.textAlign="right",
ctx.textBaseline=slot===0?"top":slot>slots-2.5?"bottom":"middle";let said=isRun?(Math.max(0,until-ago)/1e6).toFixed(digits):
`−${(ago/1e6).toFixed(digits)}`;ctx.fillText(slot===0&&!isRun?"newest":`${said} s`,54,slot*6+1)}function slotAt(y2,slots){
return Math.max(0,Math.min(slots-1,Math.floor((y2-1)/6)))}function strandTime(row){let last=Math.max(...row.parts.map(part=>part.
last),row.at),span=Math.min(2e6,Math.max(4e4,(last-row.at)*1.5)),from=row.at-Math.min(span*.25,4e4/2);return[from,from+span]}
function drawStrand(canvas,rows,around,palette2,isRun){let[ctx,width]=begin(canvas,190),[from,to]=strandTime(around),shown=rows.
flatMap(row=>row.parts.filter(part=>part.last>=from&&part.first<=to).map(part=>({...part,from:row.start+part.from,to:row.
start+part.to}))),near=at=>Math.abs(at-around.start)<=8*around.length,parts=shown.filter(part=>near(part.from)),least=Math.
min(around.start,...parts.map(part=>part.from)),most=Math.max(around.start+around.length,...parts.map(part=>part.to)),[top,
bottom]=[8,168],x2=time2=>64+(time2-from)/(to-from)*(width-64-6),y2=offset=>bottom-(offset-least)/(most-least)*(bottom-top);
ctx.fillStyle=palette2.grid;let high=y2(around.start)-y2(around.start+around.length);ctx.fillRect(64,y2(around.start+around.
length),width-64-6,Math.max(1,high)),ctx.save(),ctx.beginPath(),ctx.rect(64,0,width-64-6,bottom+2),ctx.clip(),ctx.lineCap=
"round";for(let part of parts){let[begins,ends]=part.backward?[part.to,part.from]:[part.from,part.to];ctx.strokeStyle=palette2.
of(part.path),ctx.lineWidth=part.why==="new"?2.5:2,ctx.setLineDash(part.why==="new"?[]:part.why==="copy"?[2,4]:[6,3]),ctx.
beginPath(),ctx.moveTo(x2(part.first),y2(begins)),ctx.lineTo(Math.max(x2(part.last),x2(part.first)+1),y2(ends)),ctx.stroke()}
ctx.restore(),ctx.fillStyle=palette2.soft,ctx.textBaseline="bottom",ctx.textAlign="left";let said=at=>isRun?`${(Math.max(
0,at)/1e6).toFixed(2)} s`:`${((at-from)/1e3).toFixed(0)} ms`;ctx.fillText(said(from),64,188),ctx.textAlign="right",ctx.fillText(
said(to),width-6,188),ctx.textBaseline="top",ctx.fillText("stream ↑",56,top)}var SPANS=[[2,"2 s"],[10,"10 s"],[60,"1 min"]];function shownAtFirst(){return{span:SPANS[1][0],direction:null,row:null,until:null,
table:!1}}function scene(weave2,shown,isRun){let direction=shown.direction??weave2.busier(),cloth=weave2[direction],all2=cloth.
rows(),until=shown.until??weave2.now,from=until-shown.span*1e6,[slots,told]=[choose(all2,from,until,64),within(all2,from,
until)],rows=eachOnce(slots),shows=isRun?telling(rows):rows.find(row=>row.wait!==null||repeated(row)>0),selected=rows.find(
row=>row.start===shown.row)??shows??rows[0];return{cloth,direction,all:all2,slots,rows,told,selected,until,isRun,slot:shown.
span*1e6/64}}function paint(weave2,shown,palette2,isRun){let{direction,slots,all:all2,selected,until}=scene(weave2,shown,
isRun),time2={span:shown.span*1e6,until,gaps:weave2[direction].gaps,isRun},of=id=>document.querySelector(`#${id}`),[cloth,
strand]=[of("cloth"),of("strand")];cloth&&drawCloth(cloth,slots,time2,selected,palette2),strand&&selected&&drawStrand(strand,
all2,selected,palette2,isRun);for(let key of document.querySelectorAll("canvas[data-key]"))drawKey(key,palette2)}function drawKey(canvas,palette2){
let scale=window.devicePixelRatio||1,looks=`${canvas.dataset.key} ${palette2.of(Number(canvas.dataset.path))} ${palette2.
ink} ${scale}`;if(canvas.dataset.looks===looks)return;canvas.dataset.looks=looks,[canvas.width,canvas.height]=[26*scale,
12*scale];let ctx=canvas.getContext("2d");ctx.setTransform(scale,0,0,scale,0,0);let path=Number(canvas.dataset.path??0),
place=[1,1,24,10],key=canvas.dataset.key;if(key==="none"){ctx.strokeStyle=palette2.grid,ctx.strokeRect(1.5,1.5,23,9);return}
key==="wait"?drawWait(ctx,...place,palette2):drawPart(ctx,{path,why:key==="copy"||key==="again"?key:"new",backward:key===
"backward"},!0,place,palette2),key==="missing"&&drawMissing(ctx,...place,palette2)}function view(weave2,shown,change2,isRecorded){
let now=scene(weave2,shown,isRecorded),{direction,all:all2,rows,selected}=now,first=all2[0]?.at??0,radio=(name,value,text,is,set)=>b`<label><input type="radio" name=${name} value=${value} .checked=${is} @change=${set} /><span>${text}</span></label>`,
spans=isRecorded?[...SPANS,[Math.max(1,Math.ceil((weave2.now-first)/1e6)),"all"]]:SPANS;return b`<div class="controls">
<fieldset>
<legend class="unseen">Direction of the weave</legend>
${radio("weave-direction","sent","sent",direction==="sent",()=>change2({direction:"sent",row:null}))}
${radio("weave-direction","received","received",direction==="received",()=>change2({direction:"received",row:null}))}
</fieldset>
<fieldset>
<legend class="unseen">Time of the cloth</legend>
${spans.map(([seconds,name])=>radio("weave-span",name,name,shown.span===seconds,()=>change2({span:seconds,row:null})))}
</fieldset>
</div>
${rows.length===0?b`<p class="empty" id="weave-empty">${empty(weave2,shown,now)}</p>`:A}
<div class="weave" ?hidden=${rows.length===0}>
${isRecorded?moment(now,shown,first,weave2.now,change2):A}
<p class="caption" id="weave-caption">${caption(now)}${unknown(weave2,shown,now)>0?" Grey stripes: it was not recorded.":
""}</p>
<div class="plot" role="img" aria-label=${words(weave2,now)}>
<canvas id="cloth" @pointerdown=${event=>point(event,now,change2)}></canvas>
</div>
${legend(weave2,now)}
${slider(now,change2)}
<p class="caption">The strand of that row: its bytes of the stream over time. What a path fills from the start rises, what it fills from the end falls; dashed: ${direction===
"sent"?"sent again, or a copy":"came a second time"}.</p>
<div class="plot" role="img" aria-label=${selected?strandWords(weave2,selected):"no row"}>
<canvas id="strand"></canvas>
</div>
<details @toggle=${event=>change2({table:event.target.open})}>
<summary>Table<span class="unseen"> of the weave</span></summary>
${shown.table?table(weave2,now):A}
</details>
${howToRead(direction)}
</div>`}function unknown(weave2,{span},{slots,until,direction}){return unknownSlots(slots,{span:span*1e6,until,gaps:weave2[direction].
gaps}).reduce((sum2,[from,to])=>sum2+to-from,0)}function empty(weave2,shown,now){let known=now.slots.length-unknown(weave2,
shown,now);if(known===0)return"Nothing is known of this time: it was not recorded.";let rest=known<now.slots.length?" as\
 far as it was recorded":"";return`Nothing was ${now.direction} in this time${rest}.`}function point(event,{slots},change2){
let at=slotAt(event.offsetY,slots.length),row=slots.map((row2,slot)=>({row:row2,far:Math.abs(slot-at)})).sort((a2,b2)=>a2.
far-b2.far).find(one=>one.row)?.row;row&&change2({row:row.start})}function caption(scene2){let{cloth,rows,told,slot}=scene2,
kinds={windows:"a window of the scheduler",inferred:"a window, as inferred from the direction in which it was filled",fixed:"\
a MiB of the stream"},every=cloth.every>1?` Of so many rows the page has one in ${cloth.every}; those that show somethin\
g come first.`:"",drawn=told.length>rows.length?`${rows.length} of ${told.length} rows are drawn`:`${rows.length} rows`,
lost=cloth.leftOut>0?` ${cloth.leftOut} stretches came and went between two looks.`:"",left=rows.reduce((sum2,row)=>sum2+
row.left,0),torn=left>0?` Too fine to be drawn: in these rows ${left} short parts are put together by path.`:"",known=cloth.
knownTo===null?"":` What has arrived beyond ${(cloth.knownTo/1e6).toFixed(2)} MB is not known: it came in too many piece\
s.`;return`The cloth: each row is ${kinds[cloth.cut]}, the newest on top (${drawn}). From left to right it goes from its\
 first byte to its last; its height is the time in which it was filled, in steps of ${duration2(Math.round(slot/1e3))}.${waits(
scene2)}${every}${torn}${known}${lost}`}var when=({until,isRun},at)=>isRun?`at ${(at/1e6).toFixed(2)} s`:`${(Math.max(0,
until-at)/1e6).toFixed(1)} s before`;function waits(scene2){let all2=scene2.told.filter(row=>row.wait).sort((a2,b2)=>(b2.
wait?.ms??0)-(a2.wait?.ms??0));if(all2.length===0)return"";let longest=all2.slice(0,3).map(row=>`${duration2(row.wait?.ms??
0)} in the row ${when(scene2,row.at)}`);return` The reader waited within ${all2.length===1?"one row":`${all2.length} row\
s`}: ${longest.join(", ")}${all2.length>3?", and less in others":""}.`}var duration2=ms=>ms<1e3?`${ms} ms`:`${(ms/1e3).toFixed(
1)} s`;function slider({rows,selected,isRun},change2){let at=selected?rows.indexOf(selected):0,move=event=>{let place=rows.
length-1-Number(event.target.value);change2({row:rows[place]?.start??null})},wait=selected?.wait?`; the reader waited ${duration2(
selected.wait.ms)}`:"",seconds=at2=>(at2/1e6).toFixed(2),times=selected&&isRun?`${seconds(selected.at)} to ${seconds(filled(
selected))} s, `:"",text=selected?`${times}at ${seconds(selected.start)} MB of the stream${wait}`:"none";return b`<div class="timeline">
<label for="weave-row">Row</label>
<input id="weave-row" type="range" min="0" max=${Math.max(0,rows.length-1)} .value=${String(rows.length-1-at)} aria-valuetext=${text} @input=${move} />
<output for="weave-row">${text}</output>
</div>`}function moment({until},{span},first,last,change2){let[least,most]=[Math.min(last,first+span*1e6)/1e6,last/1e6];
if(least>=most)return b``;let move=event=>change2({until:Number(event.target.value)*1e6,row:null}),text=`${(until/1e6).toFixed(
2)} s`;return b`<div class="timeline">
<label for="weave-until">Until</label>
<input id="weave-until" type="range" min=${least} max=${most} step="0.05" .value=${String(until/1e6)} aria-valuetext=${text} @input=${move} />
<output for="weave-until">${text}</output>
</div>`}function legend(weave2,{told,cloth,direction}){let key=(kind,text,path=0)=>b`<li><canvas data-key=${kind} data-path=${path} aria-hidden="true" width="26" height="12"></canvas> ${text}</li>`,
any=[...shares(told).keys()][0]??0,upwards=cloth.cut==="fixed"?A:key("backward","filled from its end: the edge is where \
that began",any);return b`<ul class="legend" id="weave-legend">
${[...shares(told)].map(([path,share])=>key("new",b`<strong>${weave2.name(path)}</strong> ${(share*100).toFixed(0)} %`,path))}
${upwards}
${direction==="sent"?b`${key("missing","faint: sent, and not known to have arrived",any)}
${key("again","stripes like \\: sent again, as the path that has it is slow or gone; drawn in its place in the stream",any)}
${key("copy","stripes like /: sent over two paths at once, to be safe",any)}`:b`${key("none","blank: has not arrived",any)}
${key("copy","stripes like /: came a second time",any)}`}
${key("wait","outlined: the reader waited for these bytes 50 ms or more; its length is bytes, not time")}
</ul>`}function howToRead(direction){return b`<details>
<summary>How to read it</summary>
<p>
Each colour is a path. Where two paths fill a row from both ends, they meet at a seam; it wanders
with their rates. The path that would deliver first begins on the left: where the colours change sides, that
was the other one from then on. A path that gets slow has less of each row, and rows get higher; one that is
gone has no part of them. A thin line means that nothing was ${direction} then.
${direction==="sent"?`A path that stalls leaves its part faint: the bytes are on their way and do not arrive. If they co\
me
before others that have arrived, the reader waits, and they are outlined. Then another path sends them
again: stripes like \\ on its own colour.`:`What a path that stalls was given is blank, until another path brings it: it\
 has then that path's colour,
and what comes a second time has stripes like /. If it comes before others that have arrived, the
reader waits, and it is outlined.`}
</p>
</details>`}var timeHead=isRun=>b`${isRun?"begun":"age"} <span class="unit">s</span>`,percent2=(part,whole)=>`${(100*part/
whole).toFixed(0)} %`;function words(weave2,{rows,told,direction}){let of=[...shares(told)].map(([path,share])=>`${weave2.
name(path)} ${(share*100).toFixed(0)} %`).join(", "),again=rows.filter(row=>repeated(row)>0).length,waited=Math.max(0,...rows.
map(row=>row.wait?.ms??0)),wait=waited>0?`; the reader waited up to ${waited} ms`:"";return`Cloth of what was ${direction}\
: ${rows.length} rows; ${of}; ${again} with bytes sent again${wait}`}function strandWords(weave2,row){let[from,to]=strandTime(
row),of=[...shares([row])].map(([path,share])=>`${weave2.name(path)} ${(share*100).toFixed(0)} %`).join(", ");return`Str\
and: ${((to-from)/1e3).toFixed(0)} ms around the row at ${(row.start/1e6).toFixed(2)} MB: ${of}`}function table(weave2,{
rows,until,direction,isRun}){let paths2=[...shares(rows).keys()],sum2=(row,is)=>row.parts.filter(is).reduce((total,part)=>total+
part.to-part.from,0),line=row=>{let of=path=>{let own=row.parts.filter(part=>part.path===path&&part.why==="new");if(own.
length===0)return"–";let ways=`${own.some(part=>!part.backward)?"↑":""}${own.some(part=>part.backward)?"↓":""}`;return`${percent2(
sum2(row,part=>own.includes(part)),row.length)} ${ways}`},missing=row.missing.reduce((total,[from,to])=>total+to-from,0);
return b`<tr>
<th scope="row">${isRun?(row.at/1e6).toFixed(2):number((until-row.at)/1e6)}</th>
<td>${(row.start/1e6).toFixed(2)}</td>
<td>${bytes(row.length)}</td>
${paths2.map(path=>b`<td>${of(path)}</td>`)}
<td>${percent2(sum2(row,part=>part.why==="copy"),row.length)}</td>
<td>${percent2(sum2(row,part=>part.why==="again"),row.length)}</td>
<td>${percent2(missing,row.length)}</td>
<td>${row.wait?.ms??0}</td>
</tr>`};return scrolled("The weave, as a table",b`<table>
<caption>Rows of what was ${direction}, as drawn; ↑ filled from the start, ↓ from the end</caption>
<thead>
<tr>
<th scope="col">${timeHead(isRun)}</th>
<th scope="col">offset <span class="unit">MB</span></th>
<th scope="col">length</th>
${paths2.map(path=>b`<th scope="col">${weave2.name(path)}</th>`)}
<th scope="col">copies</th>
<th scope="col">sent again</th>
<th scope="col">not arrived</th>
<th scope="col">waited <span class="unit">ms</span></th>
</tr>
</thead>
<tbody>${rows.map(line)}</tbody>
</table>`)}var Refused=class extends Error{constructor(status2,reason){super(reason);this.status=status2}status},WAITS=[500,1e3,2e3,
5e3],SILENCE=3e4,PATIENCE=1e4;async function ask(path,options={}){let answer=await fetch(path,{cache:"no-store",credentials:"\
same-origin",...options});if(answer.ok)return answer;let said=await answer.text(),reason=said.trim();try{reason=JSON.parse(
said).error}catch{}throw new Refused(answer.status,reason||`HTTP ${answer.status}`)}var Silence=class{constructor(open,patience){
this.open=open;this.patience=patience;this.heard()}open;patience;timer;get signal(){return this.open.signal}heard(){clearTimeout(
this.timer),this.timer=setTimeout(()=>this.open.abort(),this.patience)}end(){clearTimeout(this.timer)}};async function*pieces(path,silence,headers={}){
let answer=await ask(path,{headers,signal:silence.signal});if(!answer.body)return;let reader=answer.body.pipeThrough(new TextDecoderStream).
getReader();for(;;){let{done,value}=await reader.read();if(done)return;silence.heard(),yield value}}async function json(path,silence){
let text="";for await(let piece of pieces(path,silence))text+=piece;return JSON.parse(text)}async function status(connections2){
let silence=new Silence(new AbortController,PATIENCE);try{return await json(`/api/1/status?connections=${connections2}`,
silence)}finally{silence.end()}}async function tried(attempt){for(let wait of WAITS)try{return await attempt()}catch(error){
if(error instanceof Refused)throw error;await new Promise(done=>setTimeout(done,wait))}return attempt()}async function begin2(){
let token=new URLSearchParams(location.hash.slice(1)).get("k");if(!token)return"";history.replaceState(null,"",location.
pathname);let body=JSON.stringify({token}),session=options=>tried(()=>ask("/api/1/session",{...options,signal:AbortSignal.
timeout(PATIENCE)}));try{return await(await session({method:"POST",body})).text(),""}catch(error){if(!(error instanceof Refused&&
error.status===403&&error.message.includes("token"))||await session({}).then(()=>!1,why=>why instanceof Refused))throw error;
return`The address that was opened last is of another start: ${error.message}. This page goes on.`}}function messages(text){
let parts=text.split(`

`),rest=parts.pop()??"";return[parts.map(part=>{let message={id:"",event:"",data:""};for(let line of part.split(`
`)){let colon=line.indexOf(": "),name=line.slice(0,colon);(name==="id"||name==="event"||name==="data")&&(message[name]=line.
slice(colon+2))}return message}),rest]}var Stream=class{constructor(to){this.to=to;document.addEventListener("visibility\
change",()=>this.follow()),window.addEventListener("online",()=>this.now()),window.addEventListener("pagehide",()=>this.
stop()),window.addEventListener("pageshow",event=>event.persisted&&this.follow())}to;attempts=0;open;timer;follow(){document.
visibilityState==="hidden"?(this.stop(),this.to.link({is:"hidden"})):this.now()}now(){this.open||document.visibilityState===
"hidden"||(clearTimeout(this.timer),this.to.link({is:"connecting"}),this.run())}again(){this.stop(),this.now()}refuse(reason){
this.stop(),this.to.link({is:"refused",reason})}stop(){clearTimeout(this.timer),this.open?.abort(),this.open=void 0}async run(){
let open=new AbortController;this.open=open;let reason="the daemon has ended the stream";try{await this.read(open)}catch(error){
if(error instanceof Refused&&(error.status===401||error.status===403))return this.refuse(error.message);reason=error instanceof
Refused?error.message:"the daemon does not answer"}if(this.open!==open)return;open.abort(),this.open=void 0;let wait=WAITS[Math.
min(this.attempts++,WAITS.length-1)];this.to.link({is:"waiting",reason,until:Date.now()+wait}),this.timer=setTimeout(()=>this.
now(),wait)}async read(open){let silence=new Silence(open,SILENCE);try{this.to.last()||this.to.load(await json("/api/1/h\
istory",silence));let headers={"Last-Event-ID":this.to.last()},watched=this.to.watched(),query2=watched===null?"":`?weav\
e=${watched}`,text="";for await(let piece of pieces(`/api/1/stream${query2}`,silence,headers)){let[read,rest]=messages(text+
piece);text=rest;for(let message of read)await this.take(message,silence)}}finally{silence.end()}}async take({id,event,data},silence){
let said=JSON.parse(data);switch(event){case"hello":this.to.instance(String(said.instance)),said.resumed||this.to.load(await json(
"/api/1/history",silence)),this.attempts=0,this.to.link({is:"live"});break;case"sample":this.to.sample(said,id);break;case"\
event":this.to.event(said,id);break;case"weave":this.to.weave(said);break;default:break}}};var LATE=3e3,Asking=class{constructor(by){this.by=by}by;since=null;failed=!1;at=null;async look(now){if(this.since===null){
this.since=now;try{let answer=await this.by.ask();this.failed=!1,this.at=now,this.by.answered(answer)}catch(error){if(error instanceof
Refused&&error.status===401)return this.by.refused(error.message);this.failed=!0}finally{this.since=null}}}age(now){let isLate=this.
since!==null&&now-this.since>LATE;return this.at!==null&&(this.failed||isLate)?(now-this.at)/1e3:null}};var UPLOT="uplot",ORI_HZ="u-hz",ORI_VT="u-vt",TITLE="u-title",WRAP="u-wrap",UNDER="u-under",OVER="u-over",AXIS="u-axis",
OFF="u-off",SELECT="u-select",CURSOR_X="u-cursor-x",CURSOR_Y="u-cursor-y",CURSOR_PT="u-cursor-pt",LEGEND="u-legend",LEGEND_LIVE="\
u-live",LEGEND_INLINE="u-inline",LEGEND_SERIES="u-series",LEGEND_MARKER="u-marker",LEGEND_LABEL="u-label",LEGEND_VALUE="\
u-value",WIDTH="width",HEIGHT="height";var BOTTOM="bottom",LEFT="left",RIGHT="right",hexBlack="#000",transparent=hexBlack+"0",mousemove="mousemove",mousedown="\
mousedown",mouseup="mouseup",mouseenter="mouseenter",mouseleave="mouseleave",dblclick="dblclick",resize="resize",scroll="\
scroll",change="change",dppxchange="dppxchange",LEGEND_DISP="--",domEnv=typeof window<"u",doc=domEnv?document:null,win=domEnv?
window:null,nav=domEnv?navigator:null,pxRatio,query;function setPxRatio(){let _pxRatio=devicePixelRatio;pxRatio!=_pxRatio&&
(pxRatio=_pxRatio,query&&off(change,query,setPxRatio),query=matchMedia(`(min-resolution: ${pxRatio-.001}dppx) and (max-r\
esolution: ${pxRatio+.001}dppx)`),on(change,query,setPxRatio),win.dispatchEvent(new CustomEvent(dppxchange)))}function addClass(el,c3){
if(c3!=null){let cl=el.classList;!cl.contains(c3)&&cl.add(c3)}}function remClass(el,c3){let cl=el.classList;cl.contains(
c3)&&cl.remove(c3)}function setStylePx(el,name,value){el.style[name]=value+"px"}function placeTag(tag,cls,targ,refEl){let el=doc.
createElement(tag);return cls!=null&&addClass(el,cls),targ?.insertBefore(el,refEl),el}function placeDiv(cls,targ){return placeTag(
"div",cls,targ)}var xformCache=new WeakMap;function elTrans(el,xPos,yPos,xMax,yMax){let xform="translate("+xPos+"px,"+yPos+
"px)",xformOld=xformCache.get(el);xform!=xformOld&&(el.style.transform=xform,xformCache.set(el,xform),xPos<0||yPos<0||xPos>
xMax||yPos>yMax?addClass(el,OFF):remClass(el,OFF))}var colorCache=new WeakMap;function elColor(el,background,borderColor){
let newColor=background+borderColor,oldColor=colorCache.get(el);newColor!=oldColor&&(colorCache.set(el,newColor),el.style.
background=background,el.style.borderColor=borderColor)}var sizeCache=new WeakMap;function elSize(el,newWid,newHgt,centered){
let newSize=newWid+""+newHgt,oldSize=sizeCache.get(el);newSize!=oldSize&&(sizeCache.set(el,newSize),el.style.height=newHgt+
"px",el.style.width=newWid+"px",el.style.marginLeft=centered?-newWid/2+"px":0,el.style.marginTop=centered?-newHgt/2+"px":
0)}var evOpts={passive:!0},evOpts2={...evOpts,capture:!0};function on(ev,el,cb,capt){el.addEventListener(ev,cb,capt?evOpts2:
evOpts)}function off(ev,el,cb,capt){el.removeEventListener(ev,cb,evOpts)}domEnv&&setPxRatio();function closestIdx(num,arr,lo,hi){
let mid;lo=lo||0,hi=hi||arr.length-1;let bitwise=hi<=2147483647;for(;hi-lo>1;)mid=bitwise?lo+hi>>1:floor((lo+hi)/2),arr[mid]<
num?lo=mid:hi=mid;return num-arr[lo]<=arr[hi]-num?lo:hi}function makeIndexOfs(predicate){return(data,_i0,_i1)=>{let i0=-1,
i1=-1;for(let i4=_i0;i4<=_i1;i4++)if(predicate(data[i4])){i0=i4;break}for(let i4=_i1;i4>=_i0;i4--)if(predicate(data[i4])){
i1=i4;break}return[i0,i1]}}var notNullish=v3=>v3!=null,isPositive=v3=>v3!=null&&v3>0,nonNullIdxs=makeIndexOfs(notNullish),
positiveIdxs=makeIndexOfs(isPositive);function getMinMax(data,_i0,_i1,sorted=0,log=!1){let getEdgeIdxs=log?positiveIdxs:
nonNullIdxs,predicate=log?isPositive:notNullish;[_i0,_i1]=getEdgeIdxs(data,_i0,_i1);let _min=data[_i0],_max=data[_i0];if(_i0>
-1)if(sorted==1)_min=data[_i0],_max=data[_i1];else if(sorted==-1)_min=data[_i1],_max=data[_i0];else for(let i4=_i0;i4<=_i1;i4++){
let v3=data[i4];predicate(v3)&&(v3<_min?_min=v3:v3>_max&&(_max=v3))}return[_min??inf,_max??-inf]}function rangeLog(min2,max2,base,fullMags){
let minSign=sign(min2),maxSign=sign(max2);min2==max2&&(minSign==-1?(min2*=base,max2/=base):(min2/=base,max2*=base));let logFn=base==
10?log10:log2,growMinAbs=minSign==1?floor:ceil,growMaxAbs=maxSign==1?ceil:floor,minExp=growMinAbs(logFn(abs(min2))),maxExp=growMaxAbs(
logFn(abs(max2))),minIncr=pow(base,minExp),maxIncr=pow(base,maxExp);return base==10&&(minExp<0&&(minIncr=roundDec(minIncr,
-minExp)),maxExp<0&&(maxIncr=roundDec(maxIncr,-maxExp))),fullMags||base==2?(min2=minIncr*minSign,max2=maxIncr*maxSign):(min2=
incrRoundDn(min2,minIncr),max2=incrRoundUp(max2,maxIncr)),[min2,max2]}function rangeAsinh(min2,max2,base,fullMags){let minMax=rangeLog(
min2,max2,base,fullMags);return min2==0&&(minMax[0]=0),max2==0&&(minMax[1]=0),minMax}var rangePad=.1,autoRangePart={mode:3,
pad:rangePad},_eqRangePart={pad:0,soft:null,mode:0},_eqRange={min:_eqRangePart,max:_eqRangePart};function rangeNum(_min,_max,mult,extra){
return isObj(mult)?_rangeNum(_min,_max,mult):(_eqRangePart.pad=mult,_eqRangePart.soft=extra?0:null,_eqRangePart.mode=extra?
3:0,_rangeNum(_min,_max,_eqRange))}function ifNull(lh,rh){return lh??rh}function hasData(data,idx0,idx1){for(idx0=ifNull(
idx0,0),idx1=ifNull(idx1,data.length-1);idx0<=idx1;){if(data[idx0]!=null)return!0;idx0++}return!1}function _rangeNum(_min,_max,cfg){
let cmin=cfg.min,cmax=cfg.max,padMin=ifNull(cmin.pad,0),padMax=ifNull(cmax.pad,0),hardMin=ifNull(cmin.hard,-inf),hardMax=ifNull(
cmax.hard,inf),softMin=ifNull(cmin.soft,inf),softMax=ifNull(cmax.soft,-inf),softMinMode=ifNull(cmin.mode,0),softMaxMode=ifNull(
cmax.mode,0),delta=_max-_min,deltaMag=log10(delta),scalarMax=max(abs(_min),abs(_max)),scalarMag=log10(scalarMax),scalarMagDelta=abs(
scalarMag-deltaMag);(delta<1e-24||scalarMagDelta>10)&&(delta=0,(_min==0||_max==0)&&(delta=1e-24,softMinMode==2&&softMin!=
inf&&(padMin=0),softMaxMode==2&&softMax!=-inf&&(padMax=0)));let nonZeroDelta=delta||scalarMax||1e3,mag=log10(nonZeroDelta),
base=pow(10,floor(mag)),_padMin=nonZeroDelta*(delta==0?_min==0?.1:1:padMin),_newMin=roundDec(incrRoundDn(_min-_padMin,base/
10),24),_softMin=_min>=softMin&&(softMinMode==1||softMinMode==3&&_newMin<=softMin||softMinMode==2&&_newMin>=softMin)?softMin:
inf,minLim=max(hardMin,_newMin<_softMin&&_min>=_softMin?_softMin:min(_softMin,_newMin)),_padMax=nonZeroDelta*(delta==0?_max==
0?.1:1:padMax),_newMax=roundDec(incrRoundUp(_max+_padMax,base/10),24),_softMax=_max<=softMax&&(softMaxMode==1||softMaxMode==
3&&_newMax>=softMax||softMaxMode==2&&_newMax<=softMax)?softMax:-inf,maxLim=min(hardMax,_newMax>_softMax&&_max<=_softMax?
_softMax:max(_softMax,_newMax));return minLim==maxLim&&minLim==0&&(maxLim=100),[minLim,maxLim]}var numFormatter=new Intl.
NumberFormat(domEnv?nav.language:"en-US"),fmtNum=val=>numFormatter.format(val),M2=Math,PI=M2.PI,abs=M2.abs,floor=M2.floor,
round=M2.round,ceil=M2.ceil,min=M2.min,max=M2.max,pow=M2.pow,sign=M2.sign,log10=M2.log10,log2=M2.log2,sinh=(v3,linthresh=1)=>M2.
sinh(v3)*linthresh,asinh=(v3,linthresh=1)=>M2.asinh(v3/linthresh),inf=1/0;function numIntDigits(x2){return(log10((x2^x2>>
31)-(x2>>31))|0)+1}function clamp(num,_min,_max){return min(max(num,_min),_max)}function isFn(v3){return typeof v3=="fun\
ction"}function fnOrSelf(v3){return isFn(v3)?v3:()=>v3}var noop=()=>{},retArg0=_0=>_0,retArg1=(_0,_1)=>_1,retNull=_3=>null,
retTrue=_3=>!0,retEq=(a2,b2)=>a2==b2,regex6=/\.\d*?(?=9{6,}|0{6,})/gm,fixFloat=val=>{if(isInt(val)||fixedDec.has(val))return val;
let str=`${val}`,match=str.match(regex6);if(match==null)return val;let len=match[0].length-1;if(str.indexOf("e-")!=-1){let[
num,exp]=str.split("e");return+`${fixFloat(num)}e${exp}`}return roundDec(val,len)};function incrRound(num,incr){return fixFloat(
roundDec(fixFloat(num/incr))*incr)}function incrRoundUp(num,incr){return fixFloat(ceil(fixFloat(num/incr))*incr)}function incrRoundDn(num,incr){
return fixFloat(floor(fixFloat(num/incr))*incr)}function roundDec(val,dec=0){if(isInt(val))return val;let p3=10**dec,n2=val*
p3*(1+Number.EPSILON);return round(n2)/p3}var fixedDec=new Map;function guessDec(num){return((""+num).split(".")[1]||"").
length}function genIncrs(base,minExp,maxExp,mults){let incrs=[],multDec=mults.map(guessDec);for(let exp=minExp;exp<maxExp;exp++){
let expa=abs(exp),mag=roundDec(pow(base,exp),expa);for(let i4=0;i4<mults.length;i4++){let _incr=base==10?+`${mults[i4]}e${exp}`:
mults[i4]*mag,dec=(exp>=0?0:expa)+(exp>=multDec[i4]?0:multDec[i4]),incr=base==10?_incr:roundDec(_incr,dec);incrs.push(incr),
fixedDec.set(incr,dec)}}return incrs}var EMPTY_OBJ={},EMPTY_ARR=[],nullNullTuple=[null,null],isArr=Array.isArray,isInt=Number.
isInteger,isUndef=v3=>v3===void 0;function isStr(v3){return typeof v3=="string"}function isObj(v3){let is=!1;if(v3!=null){
let c3=v3.constructor;is=c3==null||c3==Object}return is}function fastIsObj(v3){return v3!=null&&typeof v3=="object"}var TypedArray=Object.
getPrototypeOf(Uint8Array),__proto__="__proto__";function copy(o2,_isObj=isObj){let out;if(isArr(o2)){let val=o2.find(v3=>v3!=
null);if(isArr(val)||_isObj(val)){out=Array(o2.length);for(let i4=0;i4<o2.length;i4++)out[i4]=copy(o2[i4],_isObj)}else out=
o2.slice()}else if(o2 instanceof TypedArray)out=o2.slice();else if(_isObj(o2)){out={};for(let k2 in o2)k2!=__proto__&&(out[k2]=
copy(o2[k2],_isObj))}else out=o2;return out}function assign(targ){let args=arguments;for(let i4=1;i4<args.length;i4++){let src=args[i4];
for(let key in src)key!=__proto__&&(isObj(targ[key])?assign(targ[key],copy(src[key])):targ[key]=copy(src[key]))}return targ}
var NULL_REMOVE=0,NULL_RETAIN=1,NULL_EXPAND=2;function nullExpand(yVals,nullIdxs,alignedLen){for(let i4=0,xi,lastNullIdx=-1;i4<
nullIdxs.length;i4++){let nullIdx=nullIdxs[i4];if(nullIdx>lastNullIdx){for(xi=nullIdx-1;xi>=0&&yVals[xi]==null;)yVals[xi--]=
null;for(xi=nullIdx+1;xi<alignedLen&&yVals[xi]==null;)yVals[lastNullIdx=xi++]=null}}}function join(tables,nullModes){if(allHeadersSame(
tables)){let table2=tables[0].slice();for(let i4=1;i4<tables.length;i4++)table2.push(...tables[i4].slice(1));return isAsc(
table2[0])||(table2=sortCols(table2)),table2}let xVals=new Set;for(let ti=0;ti<tables.length;ti++){let xs=tables[ti][0],
len=xs.length;for(let i4=0;i4<len;i4++)xVals.add(xs[i4])}let data=[Array.from(xVals).sort((a2,b2)=>a2-b2)],alignedLen=data[0].
length,xIdxs=new Map;for(let i4=0;i4<alignedLen;i4++)xIdxs.set(data[0][i4],i4);for(let ti=0;ti<tables.length;ti++){let t4=tables[ti],
xs=t4[0];for(let si=1;si<t4.length;si++){let ys=t4[si],yVals=Array(alignedLen).fill(void 0),nullMode=nullModes?nullModes[ti][si]:
NULL_RETAIN,nullIdxs=[];for(let i4=0;i4<ys.length;i4++){let yVal=ys[i4],alignedIdx=xIdxs.get(xs[i4]);yVal===null?nullMode!=
NULL_REMOVE&&(yVals[alignedIdx]=yVal,nullMode==NULL_EXPAND&&nullIdxs.push(alignedIdx)):yVals[alignedIdx]=yVal}nullExpand(
yVals,nullIdxs,alignedLen),data.push(yVals)}}return data}var microTask=typeof queueMicrotask>"u"?fn=>Promise.resolve().then(
fn):queueMicrotask;function sortCols(table2){let head=table2[0],rlen=head.length,idxs=Array(rlen);for(let i4=0;i4<idxs.length;i4++)
idxs[i4]=i4;idxs.sort((i0,i1)=>head[i0]-head[i1]);let table22=[];for(let i4=0;i4<table2.length;i4++){let row=table2[i4],
row2=Array(rlen);for(let j2=0;j2<rlen;j2++)row2[j2]=row[idxs[j2]];table22.push(row2)}return table22}function allHeadersSame(tables){
let vals0=tables[0][0],len0=vals0.length;for(let i4=1;i4<tables.length;i4++){let vals1=tables[i4][0];if(vals1.length!=len0)
return!1;if(vals1!=vals0){for(let j2=0;j2<len0;j2++)if(vals1[j2]!=vals0[j2])return!1}}return!0}function isAsc(vals,samples=100){
let len=vals.length;if(len<=1)return!0;let firstIdx=0,lastIdx=len-1;for(;firstIdx<=lastIdx&&vals[firstIdx]==null;)firstIdx++;
for(;lastIdx>=firstIdx&&vals[lastIdx]==null;)lastIdx--;if(lastIdx<=firstIdx)return!0;let stride=max(1,floor((lastIdx-firstIdx+
1)/samples));for(let prevVal=vals[firstIdx],i4=firstIdx+stride;i4<=lastIdx;i4+=stride){let v3=vals[i4];if(v3!=null){if(v3<=
prevVal)return!1;prevVal=v3}}return!0}var months=["January","February","March","April","May","June","July","August","Sep\
tember","October","November","December"],days=["Sunday","Monday","Tuesday","Wednesday","Thursday","Friday","Saturday"];function slice3(str){
return str.slice(0,3)}var days3=days.map(slice3),months3=months.map(slice3),engNames={MMMM:months,MMM:months3,WWWW:days,
WWW:days3};function zeroPad2(int){return(int<10?"0":"")+int}function zeroPad3(int){return(int<10?"00":int<100?"0":"")+int}
var subs={YYYY:d2=>d2.getFullYear(),YY:d2=>(d2.getFullYear()+"").slice(2),MMMM:(d2,names)=>names.MMMM[d2.getMonth()],MMM:(d2,names)=>names.
MMM[d2.getMonth()],MM:d2=>zeroPad2(d2.getMonth()+1),M:d2=>d2.getMonth()+1,DD:d2=>zeroPad2(d2.getDate()),D:d2=>d2.getDate(),
WWWW:(d2,names)=>names.WWWW[d2.getDay()],WWW:(d2,names)=>names.WWW[d2.getDay()],HH:d2=>zeroPad2(d2.getHours()),H:d2=>d2.
getHours(),h:d2=>{let h3=d2.getHours();return h3==0?12:h3>12?h3-12:h3},AA:d2=>d2.getHours()>=12?"PM":"AM",aa:d2=>d2.getHours()>=
12?"pm":"am",a:d2=>d2.getHours()>=12?"p":"a",mm:d2=>zeroPad2(d2.getMinutes()),m:d2=>d2.getMinutes(),ss:d2=>zeroPad2(d2.getSeconds()),
s:d2=>d2.getSeconds(),fff:d2=>zeroPad3(d2.getMilliseconds())};function fmtDate(tpl,names){names=names||engNames;let parts=[],
R2=/\{([a-z]+)\}|[^{]+/gi,m3;for(;m3=R2.exec(tpl);)parts.push(m3[0][0]=="{"?subs[m3[1]]:m3[0]);return d2=>{let out="";for(let i4=0;i4<
parts.length;i4++)out+=typeof parts[i4]=="string"?parts[i4]:parts[i4](d2,names);return out}}var localTz=new Intl.DateTimeFormat().
resolvedOptions().timeZone;function tzDate(date,tz){let date2;return tz=="UTC"||tz=="Etc/UTC"?date2=new Date(+date+date.
getTimezoneOffset()*6e4):tz==localTz?date2=date:(date2=new Date(date.toLocaleString("en-US",{timeZone:tz})),date2.setMilliseconds(
date.getMilliseconds())),date2}var onlyWhole=v3=>v3%1==0,allMults=[1,2,2.5,5],decIncrs=genIncrs(10,-32,0,allMults),oneIncrs=genIncrs(
10,0,32,allMults),wholeIncrs=oneIncrs.filter(onlyWhole),numIncrs=decIncrs.concat(oneIncrs),NL=`
`,yyyy="{YYYY}",NLyyyy=NL+yyyy,md="{M}/{D}",NLmd=NL+md,NLmdyy=NLmd+"/{YY}",aa="{aa}",hmm="{h}:{mm}",hmmaa=hmm+aa,NLhmmaa=NL+
hmmaa,ss=":{ss}",_2=null;function genTimeStuffs(ms){let s3=ms*1e3,m3=s3*60,h3=m3*60,d2=h3*24,mo=d2*30,y2=d2*365,timeIncrs=(ms==
1?genIncrs(10,0,3,allMults).filter(onlyWhole):genIncrs(10,-3,0,allMults)).concat([s3,s3*5,s3*10,s3*15,s3*30,m3,m3*5,m3*10,
m3*15,m3*30,h3,h3*2,h3*3,h3*4,h3*6,h3*8,h3*12,d2,d2*2,d2*3,d2*4,d2*5,d2*6,d2*7,d2*8,d2*9,d2*10,d2*15,mo,mo*2,mo*3,mo*4,mo*
6,y2,y2*2,y2*5,y2*10,y2*25,y2*50,y2*100]),_timeAxisStamps=[[y2,yyyy,_2,_2,_2,_2,_2,_2,1],[d2*28,"{MMM}",NLyyyy,_2,_2,_2,
_2,_2,1],[d2,md,NLyyyy,_2,_2,_2,_2,_2,1],[h3,"{h}"+aa,NLmdyy,_2,NLmd,_2,_2,_2,1],[m3,hmmaa,NLmdyy,_2,NLmd,_2,_2,_2,1],[s3,
ss,NLmdyy+" "+hmmaa,_2,NLmd+" "+hmmaa,_2,NLhmmaa,_2,1],[ms,ss+".{fff}",NLmdyy+" "+hmmaa,_2,NLmd+" "+hmmaa,_2,NLhmmaa,_2,
1]];function timeAxisSplits(tzDate2){return(self,axisIdx,scaleMin,scaleMax,foundIncr,foundSpace)=>{let splits=[],isYr=foundIncr>=
y2,isMo=foundIncr>=mo&&foundIncr<y2,minDate=tzDate2(scaleMin),minDateTs=roundDec(minDate*ms,3),minMin=mkDate(minDate.getFullYear(),
isYr?0:minDate.getMonth(),isMo||isYr?1:minDate.getDate()),minMinTs=roundDec(minMin*ms,3);if(isMo||isYr){let moIncr=isMo?
foundIncr/mo:0,yrIncr=isYr?foundIncr/y2:0,split2=minDateTs==minMinTs?minDateTs:roundDec(mkDate(minMin.getFullYear()+yrIncr,
minMin.getMonth()+moIncr,1)*ms,3),splitDate=new Date(round(split2/ms)),baseYear=splitDate.getFullYear(),baseMonth=splitDate.
getMonth();for(let i4=0;split2<=scaleMax;i4++){let next=mkDate(baseYear+yrIncr*i4,baseMonth+moIncr*i4,1),offs=next-tzDate2(
roundDec(next*ms,3));split2=roundDec((+next+offs)*ms,3),split2<=scaleMax&&splits.push(split2)}}else{let incr0=foundIncr>=
d2?d2:foundIncr,tzOffset=floor(scaleMin)-floor(minDateTs),split2=minMinTs+tzOffset+incrRoundUp(minDateTs-minMinTs,incr0);
splits.push(split2);let date0=tzDate2(split2),prevHour=date0.getHours()+date0.getMinutes()/m3+date0.getSeconds()/h3,incrHours=foundIncr/
h3,minSpace=self.axes[axisIdx]._space,pctSpace=foundSpace/minSpace;for(;split2=roundDec(split2+foundIncr,ms==1?0:3),!(split2>
scaleMax);)if(incrHours>1){let expectedHour=floor(roundDec(prevHour+incrHours,6))%24,dstShift=tzDate2(split2).getHours()-
expectedHour;dstShift>1&&(dstShift=-1),split2-=dstShift*h3,prevHour=(prevHour+incrHours)%24;let prevSplit=splits[splits.
length-1];roundDec((split2-prevSplit)/foundIncr,3)*pctSpace>=.7&&splits.push(split2)}else splits.push(split2)}return splits}}
return[timeIncrs,_timeAxisStamps,timeAxisSplits]}var[timeIncrsMs,_timeAxisStampsMs,timeAxisSplitsMs]=genTimeStuffs(1),[timeIncrsS,
_timeAxisStampsS,timeAxisSplitsS]=genTimeStuffs(.001);genIncrs(2,-53,53,[1]);function timeAxisStamps(stampCfg,fmtDate2){
return stampCfg.map(s3=>s3.map((v3,i4)=>i4==0||i4==8||v3==null?v3:fmtDate2(i4==1||s3[8]==0?v3:s3[1]+v3)))}function timeAxisVals(tzDate2,stamps){
return(self,splits,axisIdx,foundSpace,foundIncr)=>{let s3=stamps.find(s4=>foundIncr>=s4[0])||stamps[stamps.length-1],prevYear,
prevMnth,prevDate,prevHour,prevMins,prevSecs;return splits.map(split2=>{let date=tzDate2(split2),newYear=date.getFullYear(),
newMnth=date.getMonth(),newDate=date.getDate(),newHour=date.getHours(),newMins=date.getMinutes(),newSecs=date.getSeconds(),
stamp=newYear!=prevYear&&s3[2]||newMnth!=prevMnth&&s3[3]||newDate!=prevDate&&s3[4]||newHour!=prevHour&&s3[5]||newMins!=prevMins&&
s3[6]||newSecs!=prevSecs&&s3[7]||s3[1];return prevYear=newYear,prevMnth=newMnth,prevDate=newDate,prevHour=newHour,prevMins=
newMins,prevSecs=newSecs,stamp(date)})}}function timeAxisVal(tzDate2,dateTpl){let stamp=fmtDate(dateTpl);return(self,splits,axisIdx,foundSpace,foundIncr)=>splits.
map(split2=>stamp(tzDate2(split2)))}function mkDate(y2,m3,d2){return new Date(y2,m3,d2)}function timeSeriesStamp(stampCfg,fmtDate2){
return fmtDate2(stampCfg)}var _timeSeriesStamp="{YYYY}-{MM}-{DD} {h}:{mm}{aa}";function timeSeriesVal(tzDate2,stamp){return(self,val,seriesIdx,dataIdx)=>dataIdx==
null?LEGEND_DISP:stamp(tzDate2(val))}function legendStroke(self,seriesIdx){let s3=self.series[seriesIdx];return s3.width?
s3.stroke(self,seriesIdx):s3.points.width?s3.points.stroke(self,seriesIdx):null}function legendFill(self,seriesIdx){return self.
series[seriesIdx].fill(self,seriesIdx)}var legendOpts={show:!0,live:!0,isolate:!1,mount:noop,markers:{show:!0,width:2,stroke:legendStroke,
fill:legendFill,dash:"solid"},idx:null,idxs:null,values:[]};function cursorPointShow(self,si){let o2=self.cursor.points,
pt=placeDiv(),size=o2.size(self,si);setStylePx(pt,WIDTH,size),setStylePx(pt,HEIGHT,size);let mar=size/-2;setStylePx(pt,"\
marginLeft",mar),setStylePx(pt,"marginTop",mar);let width=o2.width(self,si,size);return width&&setStylePx(pt,"borderWidt\
h",width),pt}function cursorPointFill(self,si){let sp=self.series[si].points;return sp._fill||sp._stroke}function cursorPointStroke(self,si){
let sp=self.series[si].points;return sp._stroke||sp._fill}function cursorPointSize(self,si){return self.series[si].points.
size}var moveTuple=[0,0];function cursorMove(self,mouseLeft1,mouseTop1){return moveTuple[0]=mouseLeft1,moveTuple[1]=mouseTop1,
moveTuple}function filtBtn0(self,targ,handle,onlyTarg=!0){return e3=>{e3.button==0&&(!onlyTarg||e3.target==targ)&&handle(
e3)}}function filtTarg(self,targ,handle,onlyTarg=!0){return e3=>{(!onlyTarg||e3.target==targ)&&handle(e3)}}var cursorOpts={
show:!0,x:!0,y:!0,lock:!1,move:cursorMove,points:{one:!1,show:cursorPointShow,size:cursorPointSize,width:0,stroke:cursorPointStroke,
fill:cursorPointFill},bind:{mousedown:filtBtn0,mouseup:filtBtn0,click:filtBtn0,dblclick:filtBtn0,mousemove:filtTarg,mouseleave:filtTarg,
mouseenter:filtTarg},drag:{setScale:!0,x:!0,y:!1,dist:0,uni:null,click:(self,e3)=>{e3.stopPropagation(),e3.stopImmediatePropagation()},
_x:!1,_y:!1},focus:{dist:(self,seriesIdx,dataIdx,valPos,curPos)=>valPos-curPos,prox:-1,bias:0},hover:{skip:[void 0],prox:null,
bias:0},left:-10,top:-10,idx:null,dataIdx:null,idxs:null,event:null},axisLines={show:!0,stroke:"rgba(0,0,0,0.07)",width:2},
grid=assign({},axisLines,{filter:retArg1}),ticks2=assign({},grid,{size:10}),border=assign({},axisLines,{show:!1}),font='\
12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Noto Sans", sans-serif, "Apple Color Emoji"\
, "Segoe UI Emoji", "Segoe UI Symbol", "Noto Color Emoji"',labelFont="bold "+font,lineGap=1.5,xAxisOpts={show:!0,scale:"\
x",stroke:hexBlack,space:50,gap:5,alignTo:1,size:50,labelGap:0,labelSize:30,labelFont,side:2,grid,ticks:ticks2,border,font,
lineGap,rotate:0},numSeriesLabel="Value",timeSeriesLabel="Time",xSeriesOpts={show:!0,scale:"x",auto:!1,sorted:1,min:inf,
max:-inf,idxs:[]};function numAxisVals(self,splits,axisIdx,foundSpace,foundIncr){return splits.map(v3=>v3==null?"":fmtNum(
v3))}function numAxisSplits(self,axisIdx,scaleMin,scaleMax,foundIncr,foundSpace,forceMin){let splits=[],numDec=fixedDec.
get(foundIncr)||0;scaleMin=forceMin?scaleMin:roundDec(incrRoundUp(scaleMin,foundIncr),numDec);for(let val=scaleMin;val<=
scaleMax;val=roundDec(val+foundIncr,numDec))splits.push(Object.is(val,-0)?0:val);return splits}function logAxisSplits(self,axisIdx,scaleMin,scaleMax,foundIncr,foundSpace,forceMin){
let splits=[],logBase=self.scales[self.axes[axisIdx].scale].log,logFn=logBase==10?log10:log2,exp=floor(logFn(scaleMin));
foundIncr=pow(logBase,exp),logBase==10&&(foundIncr=numIncrs[closestIdx(foundIncr,numIncrs)]);let split2=scaleMin,nextMagIncr=foundIncr*
logBase;logBase==10&&(nextMagIncr=numIncrs[closestIdx(nextMagIncr,numIncrs)]);do splits.push(split2),split2=split2+foundIncr,
logBase==10&&!fixedDec.has(split2)&&(split2=roundDec(split2,fixedDec.get(foundIncr))),split2>=nextMagIncr&&(foundIncr=split2,
nextMagIncr=foundIncr*logBase,logBase==10&&(nextMagIncr=numIncrs[closestIdx(nextMagIncr,numIncrs)]));while(split2<=scaleMax);
return splits}function asinhAxisSplits(self,axisIdx,scaleMin,scaleMax,foundIncr,foundSpace,forceMin){let linthresh=self.
scales[self.axes[axisIdx].scale].asinh,posSplits=scaleMax>linthresh?logAxisSplits(self,axisIdx,max(linthresh,scaleMin),scaleMax,
foundIncr):[linthresh],zero=scaleMax>=0&&scaleMin<=0?[0]:[];return(scaleMin<-linthresh?logAxisSplits(self,axisIdx,max(linthresh,
-scaleMax),-scaleMin,foundIncr):[linthresh]).reverse().map(v3=>-v3).concat(zero,posSplits)}var RE_ALL=/./,RE_12357=/[12357]/,
RE_125=/[125]/,RE_1=/1/,_filt=(splits,distr,re,keepMod)=>splits.map((v3,i4)=>distr==4&&v3==0||i4%keepMod==0&&re.test(v3.
toExponential()[v3<0?1:0])?v3:null);function log10AxisValsFilt(self,splits,axisIdx,foundSpace,foundIncr){let axis=self.axes[axisIdx],
scaleKey=axis.scale,sc=self.scales[scaleKey],valToPos=self.valToPos,minSpace=axis._space,_10=valToPos(10,scaleKey),re=valToPos(
9,scaleKey)-_10>=minSpace?RE_ALL:valToPos(7,scaleKey)-_10>=minSpace?RE_12357:valToPos(5,scaleKey)-_10>=minSpace?RE_125:RE_1;
if(re==RE_1){let magSpace=abs(valToPos(1,scaleKey)-_10);if(magSpace<minSpace)return _filt(splits.slice().reverse(),sc.distr,
re,ceil(minSpace/magSpace)).reverse()}return _filt(splits,sc.distr,re,1)}function log2AxisValsFilt(self,splits,axisIdx,foundSpace,foundIncr){
let axis=self.axes[axisIdx],scaleKey=axis.scale,minSpace=axis._space,valToPos=self.valToPos,magSpace=abs(valToPos(1,scaleKey)-
valToPos(2,scaleKey));return magSpace<minSpace?_filt(splits.slice().reverse(),3,RE_ALL,ceil(minSpace/magSpace)).reverse():
splits}function numSeriesVal(self,val,seriesIdx,dataIdx){return dataIdx==null?LEGEND_DISP:val==null?"":fmtNum(val)}var yAxisOpts={
show:!0,scale:"y",stroke:hexBlack,space:30,gap:5,alignTo:1,size:50,labelGap:0,labelSize:30,labelFont,side:3,grid,ticks:ticks2,
border,font,lineGap,rotate:0};function ptDia(width,mult){let dia=3+(width||1)*2;return roundDec(dia*mult,3)}function seriesPointsShow(self,si){
let{scale,idxs}=self.series[0],xData=self._data[0],p0=self.valToPos(xData[idxs[0]],scale,!0),p1=self.valToPos(xData[idxs[1]],
scale,!0),dim=abs(p1-p0),s3=self.series[si],maxPts=dim/(s3.points.space*pxRatio);return idxs[1]-idxs[0]<=maxPts}var facet={
scale:null,auto:!0,sorted:0,min:inf,max:-inf},gaps=(self,seriesIdx,idx0,idx1,nullGaps)=>nullGaps,xySeriesOpts={show:!0,auto:!0,
sorted:0,gaps,alpha:1,facets:[assign({},facet,{scale:"x"}),assign({},facet,{scale:"y"})]},ySeriesOpts={scale:"y",auto:!0,
sorted:0,show:!0,spanGaps:!1,gaps,alpha:1,points:{show:seriesPointsShow,filter:null},values:null,min:inf,max:-inf,idxs:[],
path:null,clip:null};function clampScale(self,val,scaleMin,scaleMax,scaleKey){return scaleMin/10}var xScaleOpts={time:!0,
auto:!0,distr:1,log:10,asinh:1,min:null,max:null,dir:1,ori:0},yScaleOpts=assign({},xScaleOpts,{time:!1,ori:1}),syncs={};
function _sync(key,opts){let s3=syncs[key];return s3||(s3={key,plots:[],sub(plot){s3.plots.push(plot)},unsub(plot){s3.plots=
s3.plots.filter(c3=>c3!=plot)},pub(type,self,x2,y2,w2,h3,i4){for(let j2=0;j2<s3.plots.length;j2++)s3.plots[j2]!=self&&s3.
plots[j2].pub(type,self,x2,y2,w2,h3,i4)}},key!=null&&(syncs[key]=s3)),s3}var BAND_CLIP_FILL=1,BAND_CLIP_STROKE=2;function orient(u4,seriesIdx,cb){
let mode=u4.mode,series=u4.series[seriesIdx],data=mode==2?u4._data[seriesIdx]:u4._data,scales=u4.scales,bbox=u4.bbox,dx=data[0],
dy=mode==2?data[1]:data[seriesIdx],sx=mode==2?scales[series.facets[0].scale]:scales[u4.series[0].scale],sy=mode==2?scales[series.
facets[1].scale]:scales[series.scale],l2=bbox.left,t4=bbox.top,w2=bbox.width,h3=bbox.height,H2=u4.valToPosH,V2=u4.valToPosV;
return sx.ori==0?cb(series,dx,dy,sx,sy,H2,V2,l2,t4,w2,h3,moveToH,lineToH,rectH,arcH,bezierCurveToH):cb(series,dx,dy,sx,sy,
V2,H2,t4,l2,h3,w2,moveToV,lineToV,rectV,arcV,bezierCurveToV)}function bandFillClipDirs(self,seriesIdx){let fillDir=0,clipDirs=0,
bands=ifNull(self.bands,EMPTY_ARR);for(let i4=0;i4<bands.length;i4++){let b2=bands[i4];b2.series[0]==seriesIdx?fillDir=b2.
dir:b2.series[1]==seriesIdx&&(b2.dir==1?clipDirs|=1:clipDirs|=2)}return[fillDir,clipDirs==1?-1:clipDirs==2?1:clipDirs==3?
2:0]}function seriesFillTo(self,seriesIdx,dataMin,dataMax,bandFillDir){let mode=self.mode,series=self.series[seriesIdx],
scaleKey=mode==2?series.facets[1].scale:series.scale,scale=self.scales[scaleKey];return bandFillDir==-1?scale.min:bandFillDir==
1?scale.max:scale.distr==3?scale.dir==1?scale.min:scale.max:0}function clipBandLine(self,seriesIdx,idx0,idx1,strokePath,clipDir){
return orient(self,seriesIdx,(series,dataX,dataY,scaleX,scaleY,valToPosX,valToPosY,xOff,yOff,xDim,yDim)=>{let pxRound=series.
pxRound,dir=scaleX.dir*(scaleX.ori==0?1:-1),lineTo=scaleX.ori==0?lineToH:lineToV,frIdx,toIdx;dir==1?(frIdx=idx0,toIdx=idx1):
(frIdx=idx1,toIdx=idx0);let x0=pxRound(valToPosX(dataX[frIdx],scaleX,xDim,xOff)),y0=pxRound(valToPosY(dataY[frIdx],scaleY,
yDim,yOff)),x1=pxRound(valToPosX(dataX[toIdx],scaleX,xDim,xOff)),yLimit=pxRound(valToPosY(clipDir==1?scaleY.max:scaleY.min,
scaleY,yDim,yOff)),clip=new Path2D(strokePath);return lineTo(clip,x1,yLimit),lineTo(clip,x0,yLimit),lineTo(clip,x0,y0),clip})}
function clipGaps(gaps2,ori,plotLft,plotTop,plotWid,plotHgt){let clip=null;if(gaps2.length>0){clip=new Path2D;let rect2=ori==
0?rectH:rectV,prevGapEnd=plotLft;for(let i4=0;i4<gaps2.length;i4++){let g2=gaps2[i4];if(g2[1]>g2[0]){let w3=g2[0]-prevGapEnd;
w3>0&&rect2(clip,prevGapEnd,plotTop,w3,plotTop+plotHgt),prevGapEnd=g2[1]}}let w2=plotLft+plotWid-prevGapEnd,maxStrokeWidth=10;
w2>0&&rect2(clip,prevGapEnd,plotTop-maxStrokeWidth/2,w2,plotTop+plotHgt+maxStrokeWidth)}return clip}function addGap(gaps2,fromX,toX){
let prevGap=gaps2[gaps2.length-1];prevGap&&prevGap[0]==fromX?prevGap[1]=toX:gaps2.push([fromX,toX])}function findGaps(xs,ys,idx0,idx1,dir,pixelForX,align){
let gaps2=[],len=xs.length;for(let i4=dir==1?idx0:idx1;i4>=idx0&&i4<=idx1;i4+=dir)if(ys[i4]===null){let fr=i4,to=i4;if(dir==
1)for(;++i4<=idx1&&ys[i4]===null;)to=i4;else for(;--i4>=idx0&&ys[i4]===null;)to=i4;let frPx=pixelForX(xs[fr]),toPx=to==fr?
frPx:pixelForX(xs[to]),fri2=fr-dir;frPx=align<=0&&fri2>=0&&fri2<len?pixelForX(xs[fri2]):frPx;let toi2=to+dir;toPx=align>=
0&&toi2>=0&&toi2<len?pixelForX(xs[toi2]):toPx,toPx>=frPx&&gaps2.push([frPx,toPx])}return gaps2}function pxRoundGen(pxAlign){
return pxAlign==0?retArg0:pxAlign==1?round:v3=>incrRound(v3,pxAlign)}function rect(ori){let moveTo=ori==0?moveToH:moveToV,
arcTo=ori==0?(p3,x1,y1,x2,y2,r2)=>{p3.arcTo(x1,y1,x2,y2,r2)}:(p3,y1,x1,y2,x2,r2)=>{p3.arcTo(x1,y1,x2,y2,r2)},rect2=ori==
0?(p3,x2,y2,w2,h3)=>{p3.rect(x2,y2,w2,h3)}:(p3,y2,x2,h3,w2)=>{p3.rect(x2,y2,w2,h3)};return(p3,x2,y2,w2,h3,endRad=0,baseRad=0)=>{
endRad==0&&baseRad==0?rect2(p3,x2,y2,w2,h3):(endRad=min(endRad,w2/2,h3/2),baseRad=min(baseRad,w2/2,h3/2),moveTo(p3,x2+endRad,
y2),arcTo(p3,x2+w2,y2,x2+w2,y2+h3,endRad),arcTo(p3,x2+w2,y2+h3,x2,y2+h3,baseRad),arcTo(p3,x2,y2+h3,x2,y2,baseRad),arcTo(
p3,x2,y2,x2+w2,y2,endRad),p3.closePath())}}var moveToH=(p3,x2,y2)=>{p3.moveTo(x2,y2)},moveToV=(p3,y2,x2)=>{p3.moveTo(x2,
y2)},lineToH=(p3,x2,y2)=>{p3.lineTo(x2,y2)},lineToV=(p3,y2,x2)=>{p3.lineTo(x2,y2)},rectH=rect(0),rectV=rect(1),arcH=(p3,x2,y2,r2,startAngle,endAngle)=>{
p3.arc(x2,y2,r2,startAngle,endAngle)},arcV=(p3,y2,x2,r2,startAngle,endAngle)=>{p3.arc(x2,y2,r2,startAngle,endAngle)},bezierCurveToH=(p3,bp1x,bp1y,bp2x,bp2y,p2x,p2y)=>{
p3.bezierCurveTo(bp1x,bp1y,bp2x,bp2y,p2x,p2y)},bezierCurveToV=(p3,bp1y,bp1x,bp2y,bp2x,p2y,p2x)=>{p3.bezierCurveTo(bp1x,bp1y,
bp2x,bp2y,p2x,p2y)};function points(opts){return(u4,seriesIdx,idx0,idx1,filtIdxs)=>orient(u4,seriesIdx,(series,dataX,dataY,scaleX,scaleY,valToPosX,valToPosY,xOff,yOff,xDim,yDim)=>{
let{pxRound,points:points2}=series,moveTo,arc;scaleX.ori==0?(moveTo=moveToH,arc=arcH):(moveTo=moveToV,arc=arcV);let width=roundDec(
points2.width*pxRatio,3),rad=(points2.size-points2.width)/2*pxRatio,dia=roundDec(rad*2,3),fill2=new Path2D,clip=new Path2D,
{left:lft,top,width:wid,height:hgt}=u4.bbox;rectH(clip,lft-dia,top-dia,wid+dia*2,hgt+dia*2);let drawPoint=pi=>{if(dataY[pi]!=
null){let x2=pxRound(valToPosX(dataX[pi],scaleX,xDim,xOff)),y2=pxRound(valToPosY(dataY[pi],scaleY,yDim,yOff));moveTo(fill2,
x2+rad,y2),arc(fill2,x2,y2,rad,0,PI*2)}};if(filtIdxs)filtIdxs.forEach(drawPoint);else for(let pi=idx0;pi<=idx1;pi++)drawPoint(
pi);return{stroke:width>0?fill2:null,fill:fill2,clip,flags:BAND_CLIP_FILL|BAND_CLIP_STROKE}})}function _drawAcc(lineTo){
return(stroke,accX,minY,maxY,inY,outY)=>{minY!=maxY&&(inY!=minY&&outY!=minY&&lineTo(stroke,accX,minY),inY!=maxY&&outY!=maxY&&
lineTo(stroke,accX,maxY),lineTo(stroke,accX,outY))}}var drawAccH=_drawAcc(lineToH),drawAccV=_drawAcc(lineToV);function linear(opts){
let alignGaps=ifNull(opts?.alignGaps,0);return(u4,seriesIdx,idx0,idx1)=>orient(u4,seriesIdx,(series,dataX,dataY,scaleX,scaleY,valToPosX,valToPosY,xOff,yOff,xDim,yDim)=>{
[idx0,idx1]=nonNullIdxs(dataY,idx0,idx1);let pxRound=series.pxRound,pixelForX=val=>pxRound(valToPosX(val,scaleX,xDim,xOff)),
pixelForY=val=>pxRound(valToPosY(val,scaleY,yDim,yOff)),lineTo,drawAcc;scaleX.ori==0?(lineTo=lineToH,drawAcc=drawAccH):(lineTo=
lineToV,drawAcc=drawAccV);let dir=scaleX.dir*(scaleX.ori==0?1:-1),_paths={stroke:new Path2D,fill:null,clip:null,band:null,
gaps:null,flags:BAND_CLIP_FILL},stroke=_paths.stroke,hasGap=!1;if(idx1-idx0>=xDim*4){let xForPixel=pos=>u4.posToVal(pos,
scaleX.key,!0),minY=null,maxY=null,inY,outY,drawnAtX,accX=pixelForX(dataX[dir==1?idx0:idx1]),idx0px=pixelForX(dataX[idx0]),
idx1px=pixelForX(dataX[idx1]),nextAccXVal=xForPixel(dir==1?idx0px+1:idx1px-1);for(let i4=dir==1?idx0:idx1;i4>=idx0&&i4<=
idx1;i4+=dir){let xVal=dataX[i4],x2=(dir==1?xVal<nextAccXVal:xVal>nextAccXVal)?accX:pixelForX(xVal),yVal=dataY[i4];x2==accX?
yVal!=null?(outY=yVal,minY==null?(lineTo(stroke,x2,pixelForY(outY)),inY=minY=maxY=outY):outY<minY?minY=outY:outY>maxY&&(maxY=
outY)):yVal===null&&(hasGap=!0):(minY!=null&&drawAcc(stroke,accX,pixelForY(minY),pixelForY(maxY),pixelForY(inY),pixelForY(
outY)),yVal!=null?(outY=yVal,lineTo(stroke,x2,pixelForY(outY)),minY=maxY=inY=outY):(minY=maxY=null,yVal===null&&(hasGap=
!0)),accX=x2,nextAccXVal=xForPixel(accX+dir))}minY!=null&&minY!=maxY&&drawnAtX!=accX&&drawAcc(stroke,accX,pixelForY(minY),
pixelForY(maxY),pixelForY(inY),pixelForY(outY))}else for(let i4=dir==1?idx0:idx1;i4>=idx0&&i4<=idx1;i4+=dir){let yVal=dataY[i4];
yVal===null?hasGap=!0:yVal!=null&&lineTo(stroke,pixelForX(dataX[i4]),pixelForY(yVal))}let[bandFillDir,bandClipDir]=bandFillClipDirs(
u4,seriesIdx);if(series.fill!=null||bandFillDir!=0){let fill2=_paths.fill=new Path2D(stroke),fillToVal=series.fillTo(u4,
seriesIdx,series.min,series.max,bandFillDir),fillToY=pixelForY(fillToVal),frX=pixelForX(dataX[idx0]),toX=pixelForX(dataX[idx1]);
dir==-1&&([toX,frX]=[frX,toX]),lineTo(fill2,toX,fillToY),lineTo(fill2,frX,fillToY)}if(!series.spanGaps){let gaps2=[];hasGap&&
gaps2.push(...findGaps(dataX,dataY,idx0,idx1,dir,pixelForX,alignGaps)),_paths.gaps=gaps2=series.gaps(u4,seriesIdx,idx0,idx1,
gaps2),_paths.clip=clipGaps(gaps2,scaleX.ori,xOff,yOff,xDim,yDim)}return bandClipDir!=0&&(_paths.band=bandClipDir==2?[clipBandLine(
u4,seriesIdx,idx0,idx1,stroke,-1),clipBandLine(u4,seriesIdx,idx0,idx1,stroke,1)]:clipBandLine(u4,seriesIdx,idx0,idx1,stroke,
bandClipDir)),_paths})}function stepped(opts){let align=ifNull(opts.align,1),ascDesc=ifNull(opts.ascDesc,!1),alignGaps=ifNull(
opts.alignGaps,0),extend=ifNull(opts.extend,!1);return(u4,seriesIdx,idx0,idx1)=>orient(u4,seriesIdx,(series,dataX,dataY,scaleX,scaleY,valToPosX,valToPosY,xOff,yOff,xDim,yDim)=>{
[idx0,idx1]=nonNullIdxs(dataY,idx0,idx1);let pxRound=series.pxRound,{left,width}=u4.bbox,pixelForX=val=>pxRound(valToPosX(
val,scaleX,xDim,xOff)),pixelForY=val=>pxRound(valToPosY(val,scaleY,yDim,yOff)),lineTo=scaleX.ori==0?lineToH:lineToV,_paths={
stroke:new Path2D,fill:null,clip:null,band:null,gaps:null,flags:BAND_CLIP_FILL},stroke=_paths.stroke,dir=scaleX.dir*(scaleX.
ori==0?1:-1),prevYPos=pixelForY(dataY[dir==1?idx0:idx1]),firstXPos=pixelForX(dataX[dir==1?idx0:idx1]),prevXPos=firstXPos,
firstXPosExt=firstXPos;extend&&align==-1&&(firstXPosExt=left,lineTo(stroke,firstXPosExt,prevYPos)),lineTo(stroke,firstXPos,
prevYPos);for(let i4=dir==1?idx0:idx1;i4>=idx0&&i4<=idx1;i4+=dir){let yVal1=dataY[i4];if(yVal1==null)continue;let x1=pixelForX(
dataX[i4]),y1=pixelForY(yVal1);align==1?lineTo(stroke,x1,prevYPos):lineTo(stroke,prevXPos,y1),lineTo(stroke,x1,y1),prevYPos=
y1,prevXPos=x1}let prevXPosExt=prevXPos;extend&&align==1&&(prevXPosExt=left+width,lineTo(stroke,prevXPosExt,prevYPos));let[
bandFillDir,bandClipDir]=bandFillClipDirs(u4,seriesIdx);if(series.fill!=null||bandFillDir!=0){let fill2=_paths.fill=new Path2D(
stroke),fillTo=series.fillTo(u4,seriesIdx,series.min,series.max,bandFillDir),fillToY=pixelForY(fillTo);lineTo(fill2,prevXPosExt,
fillToY),lineTo(fill2,firstXPosExt,fillToY)}if(!series.spanGaps){let gaps2=[];gaps2.push(...findGaps(dataX,dataY,idx0,idx1,
dir,pixelForX,alignGaps));let halfStroke=series.width*pxRatio/2,startsOffset=ascDesc||align==1?halfStroke:-halfStroke,endsOffset=ascDesc||
align==-1?-halfStroke:halfStroke;gaps2.forEach(g2=>{g2[0]+=startsOffset,g2[1]+=endsOffset}),_paths.gaps=gaps2=series.gaps(
u4,seriesIdx,idx0,idx1,gaps2),_paths.clip=clipGaps(gaps2,scaleX.ori,xOff,yOff,xDim,yDim)}return bandClipDir!=0&&(_paths.
band=bandClipDir==2?[clipBandLine(u4,seriesIdx,idx0,idx1,stroke,-1),clipBandLine(u4,seriesIdx,idx0,idx1,stroke,1)]:clipBandLine(
u4,seriesIdx,idx0,idx1,stroke,bandClipDir)),_paths})}function findColWidth(dataX,dataY,valToPosX,scaleX,xDim,xOff,colWid=inf){
if(dataX.length>1){let prevIdx=null;for(let i4=0,minDelta=1/0;i4<dataX.length;i4++)if(dataY[i4]!==void 0){if(prevIdx!=null){
let delta=abs(dataX[i4]-dataX[prevIdx]);delta<minDelta&&(minDelta=delta,colWid=abs(valToPosX(dataX[i4],scaleX,xDim,xOff)-
valToPosX(dataX[prevIdx],scaleX,xDim,xOff)))}prevIdx=i4}}return colWid}function bars(opts){opts=opts||EMPTY_OBJ;let size=ifNull(
opts.size,[.6,inf,1]),align=opts.align||0,_extraGap=opts.gap||0,ro=opts.radius;ro=ro==null?[0,0]:typeof ro=="number"?[ro,
0]:ro;let radiusFn=fnOrSelf(ro),gapFactor=1-size[0],_maxWidth=ifNull(size[1],inf),_minWidth=ifNull(size[2],1),disp=ifNull(
opts.disp,EMPTY_OBJ),_each=ifNull(opts.each,_3=>{}),{fill:dispFills,stroke:dispStrokes}=disp;return(u4,seriesIdx,idx0,idx1)=>orient(
u4,seriesIdx,(series,dataX,dataY,scaleX,scaleY,valToPosX,valToPosY,xOff,yOff,xDim,yDim)=>{let pxRound=series.pxRound,_align=align,
extraGap=_extraGap*pxRatio,maxWidth=_maxWidth*pxRatio,minWidth=_minWidth*pxRatio,valRadius,baseRadius;scaleX.ori==0?[valRadius,
baseRadius]=radiusFn(u4,seriesIdx):[baseRadius,valRadius]=radiusFn(u4,seriesIdx);let _dirX=scaleX.dir*(scaleX.ori==0?1:-1),
rect2=scaleX.ori==0?rectH:rectV,each=scaleX.ori==0?_each:(u5,seriesIdx2,i4,top,lft,hgt,wid)=>{_each(u5,seriesIdx2,i4,lft,
top,wid,hgt)},band=ifNull(u4.bands,EMPTY_ARR).find(b2=>b2.series[0]==seriesIdx),fillDir=band!=null?band.dir:0,fillTo=series.
fillTo(u4,seriesIdx,series.min,series.max,fillDir),fillToY=pxRound(valToPosY(fillTo,scaleY,yDim,yOff)),xShift,barWid,fullGap,
colWid=xDim,strokeWidth=pxRound(series.width*pxRatio),multiPath=!1,fillColors=null,fillPaths=null,strokeColors=null,strokePaths=null;
dispFills!=null&&(strokeWidth==0||dispStrokes!=null)&&(multiPath=!0,fillColors=dispFills.values(u4,seriesIdx,idx0,idx1),
fillPaths=new Map,new Set(fillColors).forEach(color=>{color!=null&&fillPaths.set(color,new Path2D)}),strokeWidth>0&&(strokeColors=
dispStrokes.values(u4,seriesIdx,idx0,idx1),strokePaths=new Map,new Set(strokeColors).forEach(color=>{color!=null&&strokePaths.
set(color,new Path2D)})));let{x0,size:size2}=disp;if(x0!=null&&size2!=null){_align=1,dataX=x0.values(u4,seriesIdx,idx0,idx1),
x0.unit==2&&(dataX=dataX.map(pct=>u4.posToVal(xOff+pct*xDim,scaleX.key,!0)));let sizes=size2.values(u4,seriesIdx,idx0,idx1);
size2.unit==2?barWid=sizes[0]*xDim:barWid=valToPosX(sizes[0],scaleX,xDim,xOff)-valToPosX(0,scaleX,xDim,xOff),colWid=findColWidth(
dataX,dataY,valToPosX,scaleX,xDim,xOff,colWid),fullGap=colWid-barWid+extraGap}else colWid=findColWidth(dataX,dataY,valToPosX,
scaleX,xDim,xOff,colWid),fullGap=colWid*gapFactor+extraGap,barWid=colWid-fullGap;fullGap<1&&(fullGap=0),strokeWidth>=barWid/
2&&(strokeWidth=0),fullGap<5&&(pxRound=retArg0);let insetStroke=fullGap>0,rawBarWid=colWid-fullGap-(insetStroke?strokeWidth:
0);barWid=pxRound(clamp(rawBarWid,minWidth,maxWidth)),xShift=(_align==0?barWid/2:_align==_dirX?0:barWid)-_align*_dirX*((_align==
0?extraGap/2:0)+(insetStroke?strokeWidth/2:0));let _paths={stroke:null,fill:null,clip:null,band:null,gaps:null,flags:0},
stroke=multiPath?null:new Path2D,dataY0=null;if(band!=null)dataY0=u4.data[band.series[1]];else{let{y0,y1}=disp;y0!=null&&
y1!=null&&(dataY=y1.values(u4,seriesIdx,idx0,idx1),dataY0=y0.values(u4,seriesIdx,idx0,idx1))}let radVal=valRadius*barWid,
radBase=baseRadius*barWid;for(let i4=_dirX==1?idx0:idx1;i4>=idx0&&i4<=idx1;i4+=_dirX){let yVal=dataY[i4];if(yVal==null)continue;
if(dataY0!=null){let yVal0=dataY0[i4]??0;if(yVal-yVal0==0)continue;fillToY=valToPosY(yVal0,scaleY,yDim,yOff)}let xVal=scaleX.
distr!=2||disp!=null?dataX[i4]:i4,xPos=valToPosX(xVal,scaleX,xDim,xOff),yPos=valToPosY(ifNull(yVal,fillTo),scaleY,yDim,yOff),
lft=pxRound(xPos-xShift),btm=pxRound(max(yPos,fillToY)),top=pxRound(min(yPos,fillToY)),barHgt=btm-top;if(yVal!=null){let rv=yVal<
0?radBase:radVal,rb=yVal<0?radVal:radBase;multiPath?(strokeWidth>0&&strokeColors[i4]!=null&&rect2(strokePaths.get(strokeColors[i4]),
lft,top+floor(strokeWidth/2),barWid,max(0,barHgt-strokeWidth),rv,rb),fillColors[i4]!=null&&rect2(fillPaths.get(fillColors[i4]),
lft,top+floor(strokeWidth/2),barWid,max(0,barHgt-strokeWidth),rv,rb)):rect2(stroke,lft,top+floor(strokeWidth/2),barWid,max(
0,barHgt-strokeWidth),rv,rb),each(u4,seriesIdx,i4,lft-strokeWidth/2,top,barWid+strokeWidth,barHgt)}}return strokeWidth>0?
_paths.stroke=multiPath?strokePaths:stroke:multiPath||(_paths._fill=series.width==0?series._fill:series._stroke??series.
_fill,_paths.width=0),_paths.fill=multiPath?fillPaths:stroke,_paths})}function splineInterp(interp,opts){let alignGaps=ifNull(
opts?.alignGaps,0);return(u4,seriesIdx,idx0,idx1)=>orient(u4,seriesIdx,(series,dataX,dataY,scaleX,scaleY,valToPosX,valToPosY,xOff,yOff,xDim,yDim)=>{
[idx0,idx1]=nonNullIdxs(dataY,idx0,idx1);let pxRound=series.pxRound,pixelForX=val=>pxRound(valToPosX(val,scaleX,xDim,xOff)),
pixelForY=val=>pxRound(valToPosY(val,scaleY,yDim,yOff)),moveTo,bezierCurveTo,lineTo;scaleX.ori==0?(moveTo=moveToH,lineTo=
lineToH,bezierCurveTo=bezierCurveToH):(moveTo=moveToV,lineTo=lineToV,bezierCurveTo=bezierCurveToV);let dir=scaleX.dir*(scaleX.
ori==0?1:-1),firstXPos=pixelForX(dataX[dir==1?idx0:idx1]),prevXPos=firstXPos,xCoords=[],yCoords=[];for(let i4=dir==1?idx0:
idx1;i4>=idx0&&i4<=idx1;i4+=dir)if(dataY[i4]!=null){let xVal=dataX[i4],xPos=pixelForX(xVal);xCoords.push(prevXPos=xPos),
yCoords.push(pixelForY(dataY[i4]))}let _paths={stroke:interp(xCoords,yCoords,moveTo,lineTo,bezierCurveTo,pxRound),fill:null,
clip:null,band:null,gaps:null,flags:BAND_CLIP_FILL},stroke=_paths.stroke,[bandFillDir,bandClipDir]=bandFillClipDirs(u4,seriesIdx);
if(series.fill!=null||bandFillDir!=0){let fill2=_paths.fill=new Path2D(stroke),fillTo=series.fillTo(u4,seriesIdx,series.
min,series.max,bandFillDir),fillToY=pixelForY(fillTo);lineTo(fill2,prevXPos,fillToY),lineTo(fill2,firstXPos,fillToY)}if(!series.
spanGaps){let gaps2=[];gaps2.push(...findGaps(dataX,dataY,idx0,idx1,dir,pixelForX,alignGaps)),_paths.gaps=gaps2=series.gaps(
u4,seriesIdx,idx0,idx1,gaps2),_paths.clip=clipGaps(gaps2,scaleX.ori,xOff,yOff,xDim,yDim)}return bandClipDir!=0&&(_paths.
band=bandClipDir==2?[clipBandLine(u4,seriesIdx,idx0,idx1,stroke,-1),clipBandLine(u4,seriesIdx,idx0,idx1,stroke,1)]:clipBandLine(
u4,seriesIdx,idx0,idx1,stroke,bandClipDir)),_paths})}function monotoneCubic(opts){return splineInterp(_monotoneCubic,opts)}
function _monotoneCubic(xs,ys,moveTo,lineTo,bezierCurveTo,pxRound){let n2=xs.length;if(n2<2)return null;let path=new Path2D;
if(moveTo(path,xs[0],ys[0]),n2==2)lineTo(path,xs[1],ys[1]);else{let ms=Array(n2),ds=Array(n2-1),dys=Array(n2-1),dxs=Array(
n2-1);for(let i4=0;i4<n2-1;i4++)dys[i4]=ys[i4+1]-ys[i4],dxs[i4]=xs[i4+1]-xs[i4],ds[i4]=dys[i4]/dxs[i4];ms[0]=ds[0];for(let i4=1;i4<
n2-1;i4++)ds[i4]===0||ds[i4-1]===0||ds[i4-1]>0!=ds[i4]>0?ms[i4]=0:(ms[i4]=3*(dxs[i4-1]+dxs[i4])/((2*dxs[i4]+dxs[i4-1])/ds[i4-
1]+(dxs[i4]+2*dxs[i4-1])/ds[i4]),isFinite(ms[i4])||(ms[i4]=0));ms[n2-1]=ds[n2-2];for(let i4=0;i4<n2-1;i4++)bezierCurveTo(
path,xs[i4]+dxs[i4]/3,ys[i4]+ms[i4]*dxs[i4]/3,xs[i4+1]-dxs[i4]/3,ys[i4+1]-ms[i4+1]*dxs[i4]/3,xs[i4+1],ys[i4+1])}return path}
var cursorPlots=new Set;function invalidateRects(){for(let u4 of cursorPlots)u4.syncRect(!0)}domEnv&&(on(resize,win,invalidateRects),
on(scroll,win,invalidateRects,!0),on(dppxchange,win,()=>{uPlot.pxRatio=pxRatio}));var linearPath=linear(),pointsPath=points();
function setDefaults(d2,xo,yo,initY){return(initY?[d2[0],d2[1]].concat(d2.slice(2)):[d2[0]].concat(d2.slice(1))).map((o2,i4)=>setDefault(
o2,i4,xo,yo))}function setDefaults2(d2,xyo){return d2.map((o2,i4)=>i4==0?{}:assign({},xyo,o2))}function setDefault(o2,i4,xo,yo){
return assign({},i4==0?xo:yo,o2)}function snapNumX(self,dataMin,dataMax){return dataMin==null?nullNullTuple:[dataMin,dataMax]}
var snapTimeX=snapNumX;function snapNumY(self,dataMin,dataMax){return dataMin==null?nullNullTuple:rangeNum(dataMin,dataMax,
rangePad,!0)}function snapLogY(self,dataMin,dataMax,scale){return dataMin==null?nullNullTuple:rangeLog(dataMin,dataMax,self.
scales[scale].log,!1)}var snapLogX=snapLogY;function snapAsinhY(self,dataMin,dataMax,scale){return dataMin==null?nullNullTuple:
rangeAsinh(dataMin,dataMax,self.scales[scale].log,!1)}var snapAsinhX=snapAsinhY;function findIncr(minVal,maxVal,incrs,dim,minSpace){
let intDigits=max(numIntDigits(minVal),numIntDigits(maxVal)),delta=maxVal-minVal,incrIdx=closestIdx(minSpace/dim*delta,incrs);
do{let foundIncr=incrs[incrIdx],foundSpace=dim*foundIncr/delta;if(foundSpace>=minSpace&&intDigits+(foundIncr<5?fixedDec.
get(foundIncr):0)<=17)return[foundIncr,foundSpace]}while(++incrIdx<incrs.length);return[0,0]}function pxRatioFont(font2){
let fontSize,fontSizeCss;return font2=font2.replace(/(\d+)px/,(m3,p1)=>(fontSize=round((fontSizeCss=+p1)*pxRatio))+"px"),
[font2,fontSize,fontSizeCss]}function syncFontSize(axis){axis.show&&[axis.font,axis.labelFont].forEach(f2=>{let size=roundDec(
f2[2]*pxRatio,1);f2[0]=f2[0].replace(/[0-9.]+px/,size+"px"),f2[1]=size})}function uPlot(opts,data,then){let self={mode:ifNull(
opts.mode,1)},mode=self.mode;function getHPos(val,scale,dim,off2){let pct=scale.valToPct(val);return off2+dim*(scale.dir==
-1?1-pct:pct)}function getVPos(val,scale,dim,off2){let pct=scale.valToPct(val);return off2+dim*(scale.dir==-1?pct:1-pct)}
function getPos(val,scale,dim,off2){return scale.ori==0?getHPos(val,scale,dim,off2):getVPos(val,scale,dim,off2)}self.valToPosH=
getHPos,self.valToPosV=getVPos;let ready=!1;self.status=0;let root2=self.root=placeDiv(UPLOT);if(opts.id!=null&&(root2.id=
opts.id),addClass(root2,opts.class),opts.title){let title2=placeDiv(TITLE,root2);title2.textContent=opts.title}let can=placeTag(
"canvas"),ctx=self.ctx=can.getContext("2d"),wrap=placeDiv(WRAP,root2);on("click",wrap,e3=>{e3.target===over&&(mouseLeft1!=
mouseLeft0||mouseTop1!=mouseTop0)&&drag.click(self,e3)},!0);let under=self.under=placeDiv(UNDER,wrap);wrap.appendChild(can);
let over=self.over=placeDiv(OVER,wrap);opts=copy(opts);let pxAlign=+ifNull(opts.pxAlign,1),pxRound=pxRoundGen(pxAlign);(opts.
plugins||[]).forEach(p3=>{p3.opts&&(opts=p3.opts(self,opts)||opts)});let ms=opts.ms||.001,series=self.series=mode==1?setDefaults(
opts.series||[],xSeriesOpts,ySeriesOpts,!1):setDefaults2(opts.series||[null],xySeriesOpts),axes=self.axes=setDefaults(opts.
axes||[],xAxisOpts,yAxisOpts,!0),scales=self.scales={},bands=self.bands=opts.bands||[];bands.forEach(b2=>{b2.fill=fnOrSelf(
b2.fill||null),b2.dir=ifNull(b2.dir,-1)});let xScaleKey=mode==2?series[1].facets[0].scale:series[0].scale,drawOrderMap={
axes:drawAxesGrid,series:drawSeries},drawOrder=(opts.drawOrder||["axes","series"]).map(key2=>drawOrderMap[key2]);function initValToPct(sc){
let getVal=sc.distr==3?val=>log10(val>0?val:sc.clamp(self,val,sc.min,sc.max,sc.key)):sc.distr==4?val=>asinh(val,sc.asinh):
sc.distr==100?val=>sc.fwd(val):val=>val;return val=>{let _val=getVal(val),{_min,_max}=sc,delta=_max-_min;return(_val-_min)/
delta}}function initScale(scaleKey){let sc=scales[scaleKey];if(sc==null){let scaleOpts=(opts.scales||EMPTY_OBJ)[scaleKey]||
EMPTY_OBJ;if(scaleOpts.from!=null){initScale(scaleOpts.from);let sc2=assign({},scales[scaleOpts.from],scaleOpts,{key:scaleKey});
sc2.valToPct=initValToPct(sc2),scales[scaleKey]=sc2}else{sc=scales[scaleKey]=assign({},scaleKey==xScaleKey?xScaleOpts:yScaleOpts,
scaleOpts),sc.key=scaleKey;let isTime=sc.time,rn=sc.range,rangeIsArr=isArr(rn);if((scaleKey!=xScaleKey||mode==2&&!isTime)&&
(rangeIsArr&&(rn[0]==null||rn[1]==null)&&(rn={min:rn[0]==null?autoRangePart:{mode:1,hard:rn[0],soft:rn[0]},max:rn[1]==null?
autoRangePart:{mode:1,hard:rn[1],soft:rn[1]}},rangeIsArr=!1),!rangeIsArr&&isObj(rn))){let cfg=rn;rn=(self2,dataMin,dataMax)=>dataMin==
null?nullNullTuple:rangeNum(dataMin,dataMax,cfg)}sc.range=fnOrSelf(rn||(isTime?snapTimeX:scaleKey==xScaleKey?sc.distr==3?
snapLogX:sc.distr==4?snapAsinhX:snapNumX:sc.distr==3?snapLogY:sc.distr==4?snapAsinhY:snapNumY)),sc.auto=fnOrSelf(rangeIsArr?
!1:sc.auto),sc.clamp=fnOrSelf(sc.clamp||clampScale),sc._min=sc._max=null,sc.valToPct=initValToPct(sc)}}}initScale("x"),initScale(
"y"),mode==1&&series.forEach(s3=>{initScale(s3.scale)}),axes.forEach(a2=>{initScale(a2.scale)});for(let k2 in opts.scales)
initScale(k2);let scaleX=scales[xScaleKey],xScaleDistr=scaleX.distr,valToPosX,valToPosY;scaleX.ori==0?(addClass(root2,ORI_HZ),
valToPosX=getHPos,valToPosY=getVPos):(addClass(root2,ORI_VT),valToPosX=getVPos,valToPosY=getHPos);let pendScales={};for(let k2 in scales){
let sc=scales[k2];(sc.min!=null||sc.max!=null)&&(pendScales[k2]={min:sc.min,max:sc.max},sc.min=sc.max=null)}let _tzDate=opts.
tzDate||(ts=>new Date(round(ts/ms))),_fmtDate=opts.fmtDate||fmtDate,_timeAxisSplits=ms==1?timeAxisSplitsMs(_tzDate):timeAxisSplitsS(
_tzDate),_timeAxisVals=timeAxisVals(_tzDate,timeAxisStamps(ms==1?_timeAxisStampsMs:_timeAxisStampsS,_fmtDate)),_timeSeriesVal=timeSeriesVal(
_tzDate,timeSeriesStamp(_timeSeriesStamp,_fmtDate)),activeIdxs=[],legend3=self.legend=assign({},legendOpts,opts.legend),
cursor=self.cursor=assign({},cursorOpts,{drag:{y:mode==2}},opts.cursor),showLegend=legend3.show,showCursor=cursor.show,markers=legend3.
markers;legend3.idxs=activeIdxs,markers.width=fnOrSelf(markers.width),markers.dash=fnOrSelf(markers.dash),markers.stroke=
fnOrSelf(markers.stroke),markers.fill=fnOrSelf(markers.fill);let legendTable,legendHead,legendBody,legendRows=[],legendCells=[],
legendCols,multiValLegend=!1,NULL_LEGEND_VALUES={};if(legend3.live){let getMultiVals=series[1]?series[1].values:null;multiValLegend=
getMultiVals!=null,legendCols=multiValLegend?getMultiVals(self,1,0):{_:0};for(let k2 in legendCols)NULL_LEGEND_VALUES[k2]=
LEGEND_DISP}if(showLegend)if(legendTable=placeTag("table",LEGEND,root2),legendBody=placeTag("tbody",null,legendTable),legend3.
mount(self,legendTable),multiValLegend){legendHead=placeTag("thead",null,legendTable,legendBody);let head=placeTag("tr",
null,legendHead);placeTag("th",null,head);for(var key in legendCols)placeTag("th",LEGEND_LABEL,head).textContent=key}else
addClass(legendTable,LEGEND_INLINE),legend3.live&&addClass(legendTable,LEGEND_LIVE);let son={show:!0},soff={show:!1};function initLegendRow(s3,i4){
if(i4==0&&(multiValLegend||!legend3.live||mode==2))return nullNullTuple;let cells=[],row=placeTag("tr",LEGEND_SERIES,legendBody,
legendBody.childNodes[i4]);addClass(row,s3.class),s3.show||addClass(row,OFF);let label=placeTag("th",null,row);if(markers.
show){let indic=placeDiv(LEGEND_MARKER,label);if(i4>0){let width=markers.width(self,i4);width&&(indic.style.border=width+
"px "+markers.dash(self,i4)+" "+markers.stroke(self,i4)),indic.style.background=markers.fill(self,i4)}}let text=placeDiv(
LEGEND_LABEL,label);s3.label instanceof HTMLElement?text.appendChild(s3.label):text.textContent=s3.label,i4>0&&(markers.
show||(text.style.color=s3.width>0?markers.stroke(self,i4):markers.fill(self,i4)),onMouse("click",label,e3=>{if(cursor._lock)
return;setCursorEvent(e3);let seriesIdx=series.indexOf(s3);if((e3.ctrlKey||e3.metaKey)!=legend3.isolate){let isolate=series.
some((s4,i5)=>i5>0&&i5!=seriesIdx&&s4.show);series.forEach((s4,i5)=>{i5>0&&setSeries(i5,isolate?i5==seriesIdx?son:soff:son,
!0,syncOpts.setSeries)})}else setSeries(seriesIdx,{show:!s3.show},!0,syncOpts.setSeries)},!1),cursorFocus&&onMouse(mouseenter,
label,e3=>{cursor._lock||(setCursorEvent(e3),setSeries(series.indexOf(s3),FOCUS_TRUE,!0,syncOpts.setSeries))},!1));for(var key2 in legendCols){
let v3=placeTag("td",LEGEND_VALUE,row);v3.textContent="--",cells.push(v3)}return[row,cells]}let mouseListeners=new Map;function onMouse(ev,targ,fn,onlyTarg=!0){
let targListeners=mouseListeners.get(targ)||{},listener=cursor.bind[ev](self,targ,fn,onlyTarg);listener&&(on(ev,targ,targListeners[ev]=
listener),mouseListeners.set(targ,targListeners))}function offMouse(ev,targ,fn){let targListeners=mouseListeners.get(targ)||
{};for(let k2 in targListeners)(ev==null||k2==ev)&&(off(k2,targ,targListeners[k2]),delete targListeners[k2]);ev==null&&mouseListeners.
delete(targ)}let fullWidCss=0,fullHgtCss=0,plotWidCss=0,plotHgtCss=0,plotLftCss=0,plotTopCss=0,_plotLftCss=plotLftCss,_plotTopCss=plotTopCss,
_plotWidCss=plotWidCss,_plotHgtCss=plotHgtCss,plotLft=0,plotTop=0,plotWid=0,plotHgt=0;self.bbox={};let shouldSetScales=!1,
shouldSetSize=!1,shouldConvergeSize=!1,shouldSetCursor=!1,shouldSetSelect=!1,shouldSetLegend=!1;function _setSize(width,height,force){
(force||width!=self.width||height!=self.height)&&calcSize(width,height),resetYSeries(!1),shouldConvergeSize=!0,shouldSetSize=
!0,commit()}function calcSize(width,height){self.width=fullWidCss=plotWidCss=width,self.height=fullHgtCss=plotHgtCss=height,
plotLftCss=plotTopCss=0,calcPlotRect(),calcAxesRects();let bb=self.bbox;plotLft=bb.left=incrRound(plotLftCss*pxRatio,.5),
plotTop=bb.top=incrRound(plotTopCss*pxRatio,.5),plotWid=bb.width=incrRound(plotWidCss*pxRatio,.5),plotHgt=bb.height=incrRound(
plotHgtCss*pxRatio,.5)}let CYCLE_LIMIT=3;function convergeSize(){let converged=!1,cycleNum=0;for(;!converged;){cycleNum++;
let axesConverged=axesCalc(cycleNum),paddingConverged=paddingCalc(cycleNum);converged=cycleNum==CYCLE_LIMIT||axesConverged&&
paddingConverged,converged||(calcSize(self.width,self.height),shouldSetSize=!0)}}function setSize({width,height}){_setSize(
width,height)}self.setSize=setSize;function calcPlotRect(){let hasTopAxis=!1,hasBtmAxis=!1,hasRgtAxis=!1,hasLftAxis=!1;axes.
forEach((axis,i4)=>{if(axis.show&&axis._show){let{side,_size}=axis,isVt=side%2,labelSize=axis.label!=null?axis.labelSize:
0,fullSize=_size+labelSize;fullSize>0&&(isVt?(plotWidCss-=fullSize,side==3?(plotLftCss+=fullSize,hasLftAxis=!0):hasRgtAxis=
!0):(plotHgtCss-=fullSize,side==0?(plotTopCss+=fullSize,hasTopAxis=!0):hasBtmAxis=!0))}}),sidesWithAxes[0]=hasTopAxis,sidesWithAxes[1]=
hasRgtAxis,sidesWithAxes[2]=hasBtmAxis,sidesWithAxes[3]=hasLftAxis,plotWidCss-=_padding[1]+_padding[3],plotLftCss+=_padding[3],
plotHgtCss-=_padding[2]+_padding[0],plotTopCss+=_padding[0]}function calcAxesRects(){let off1=plotLftCss+plotWidCss,off2=plotTopCss+
plotHgtCss,off3=plotLftCss,off0=plotTopCss;function incrOffset(side,size){switch(side){case 1:return off1+=size,off1-size;case 2:
return off2+=size,off2-size;case 3:return off3-=size,off3+size;case 0:return off0-=size,off0+size}}axes.forEach((axis,i4)=>{
if(axis.show&&axis._show){let side=axis.side;axis._pos=incrOffset(side,axis._size),axis.label!=null&&(axis._lpos=incrOffset(
side,axis.labelSize))}})}if(cursor.dataIdx==null){let hov=cursor.hover,skip=hov.skip=new Set(hov.skip??[]);skip.add(void 0);
let prox=hov.prox=fnOrSelf(hov.prox),bias=hov.bias??=0;cursor.dataIdx=(self2,seriesIdx,cursorIdx,valAtPosX)=>{if(seriesIdx==
0)return cursorIdx;let idx2=cursorIdx,_prox=prox(self2,seriesIdx,cursorIdx,valAtPosX)??inf,withProx=_prox>=0&&_prox<inf,
xDim=scaleX.ori==0?plotWidCss:plotHgtCss,cursorLft=cursor.left,xValues=data[0],yValues=data[seriesIdx];if(skip.has(yValues[cursorIdx])){
idx2=null;let nonNullLft=null,nonNullRgt=null,j2;if(bias==0||bias==-1)for(j2=cursorIdx;nonNullLft==null&&j2-- >0;)skip.has(
yValues[j2])||(nonNullLft=j2);if(bias==0||bias==1)for(j2=cursorIdx;nonNullRgt==null&&j2++<yValues.length;)skip.has(yValues[j2])||
(nonNullRgt=j2);if(nonNullLft!=null||nonNullRgt!=null)if(withProx){let lftPos=nonNullLft==null?-1/0:valToPosX(xValues[nonNullLft],
scaleX,xDim,0),rgtPos=nonNullRgt==null?1/0:valToPosX(xValues[nonNullRgt],scaleX,xDim,0),lftDelta=cursorLft-lftPos,rgtDelta=rgtPos-
cursorLft;lftDelta<=rgtDelta?lftDelta<=_prox&&(idx2=nonNullLft):rgtDelta<=_prox&&(idx2=nonNullRgt)}else idx2=nonNullRgt==
null?nonNullLft:nonNullLft==null?nonNullRgt:cursorIdx-nonNullLft<=nonNullRgt-cursorIdx?nonNullLft:nonNullRgt}else withProx&&
abs(cursorLft-valToPosX(xValues[cursorIdx],scaleX,xDim,0))>_prox&&(idx2=null);return idx2}}let setCursorEvent=e3=>{cursor.
event=e3};cursor.idxs=activeIdxs,cursor._lock=!1;let points2=cursor.points;points2.show=fnOrSelf(points2.show),points2.size=
fnOrSelf(points2.size),points2.stroke=fnOrSelf(points2.stroke),points2.width=fnOrSelf(points2.width),points2.fill=fnOrSelf(
points2.fill);let focus=self.focus=assign({},opts.focus||{alpha:.3},cursor.focus),cursorFocus=focus.prox>=0,cursorOnePt=cursorFocus&&
points2.one,cursorPts=[],cursorPtsLft=[],cursorPtsTop=[];function initCursorPt(s3,si){let pt=points2.show(self,si);if(pt instanceof
HTMLElement)return addClass(pt,CURSOR_PT),addClass(pt,s3.class),elTrans(pt,-10,-10,plotWidCss,plotHgtCss),over.insertBefore(
pt,cursorPts[si]),pt}function initSeries(s3,i4){if(mode==1||i4>0){let isTime=mode==1&&scales[s3.scale].time,sv=s3.value;
s3.value=isTime?isStr(sv)?timeSeriesVal(_tzDate,timeSeriesStamp(sv,_fmtDate)):sv||_timeSeriesVal:sv||numSeriesVal,s3.label=
s3.label||(isTime?timeSeriesLabel:numSeriesLabel)}if(cursorOnePt||i4>0){s3.width=s3.width==null?1:s3.width,s3.paths=s3.paths||
linearPath||retNull,s3.fillTo=fnOrSelf(s3.fillTo||seriesFillTo),s3.pxAlign=+ifNull(s3.pxAlign,pxAlign),s3.pxRound=pxRoundGen(
s3.pxAlign),s3.stroke=fnOrSelf(s3.stroke||null),s3.fill=fnOrSelf(s3.fill||null),s3._stroke=s3._fill=s3._paths=s3._focus=
null;let _ptDia=ptDia(max(1,s3.width),1),points3=s3.points=assign({},{size:_ptDia,width:max(1,_ptDia*.2),stroke:s3.stroke,
space:_ptDia*2,paths:pointsPath,_stroke:null,_fill:null},s3.points);points3.show=fnOrSelf(points3.show),points3.filter=fnOrSelf(
points3.filter),points3.fill=fnOrSelf(points3.fill),points3.stroke=fnOrSelf(points3.stroke),points3.paths=fnOrSelf(points3.
paths),points3.pxAlign=s3.pxAlign}if(showLegend){let rowCells=initLegendRow(s3,i4);legendRows.splice(i4,0,rowCells[0]),legendCells.
splice(i4,0,rowCells[1]),legend3.values.push(null)}if(showCursor){activeIdxs.splice(i4,0,null);let pt=null;cursorOnePt?i4==
0&&(pt=initCursorPt(s3,i4)):i4>0&&(pt=initCursorPt(s3,i4)),cursorPts.splice(i4,0,pt),cursorPtsLft.splice(i4,0,0),cursorPtsTop.
splice(i4,0,0)}fire("addSeries",i4)}function addSeries(opts2,si){si=si??series.length,opts2=mode==1?setDefault(opts2,si,
xSeriesOpts,ySeriesOpts):setDefault(opts2,si,{},xySeriesOpts),series.splice(si,0,opts2),initSeries(series[si],si)}self.addSeries=
addSeries;function delSeries(i4){if(series.splice(i4,1),showLegend){legend3.values.splice(i4,1),legendCells.splice(i4,1);
let tr=legendRows.splice(i4,1)[0];offMouse(null,tr.firstChild),tr.remove()}showCursor&&(activeIdxs.splice(i4,1),cursorPts.
splice(i4,1)[0].remove(),cursorPtsLft.splice(i4,1),cursorPtsTop.splice(i4,1)),fire("delSeries",i4)}self.delSeries=delSeries;
let sidesWithAxes=[!1,!1,!1,!1];function initAxis(axis,i4){if(axis._show=axis.show,axis.show){let isVt=axis.side%2,sc=scales[axis.
scale];sc==null&&(axis.scale=isVt?series[1].scale:xScaleKey,sc=scales[axis.scale]);let isTime=sc.time;axis.size=fnOrSelf(
axis.size),axis.space=fnOrSelf(axis.space),axis.rotate=fnOrSelf(axis.rotate),isArr(axis.incrs)&&axis.incrs.forEach(incr=>{
!fixedDec.has(incr)&&fixedDec.set(incr,guessDec(incr))}),axis.incrs=fnOrSelf(axis.incrs||(sc.distr==2?wholeIncrs:isTime?
ms==1?timeIncrsMs:timeIncrsS:numIncrs)),axis.splits=fnOrSelf(axis.splits||(isTime&&sc.distr==1?_timeAxisSplits:sc.distr==
3?logAxisSplits:sc.distr==4?asinhAxisSplits:numAxisSplits)),axis.stroke=fnOrSelf(axis.stroke),axis.grid.stroke=fnOrSelf(
axis.grid.stroke),axis.ticks.stroke=fnOrSelf(axis.ticks.stroke),axis.border.stroke=fnOrSelf(axis.border.stroke);let av=axis.
values;axis.values=isArr(av)&&!isArr(av[0])?fnOrSelf(av):isTime?isArr(av)?timeAxisVals(_tzDate,timeAxisStamps(av,_fmtDate)):
isStr(av)?timeAxisVal(_tzDate,av):av||_timeAxisVals:av||numAxisVals,axis.filter=fnOrSelf(axis.filter||(sc.distr>=3&&sc.log==
10?log10AxisValsFilt:sc.distr==3&&sc.log==2?log2AxisValsFilt:retArg1)),axis.font=pxRatioFont(axis.font),axis.labelFont=pxRatioFont(
axis.labelFont),axis._size=axis.size(self,null,i4,0),axis._space=axis._rotate=axis._incrs=axis._found=axis._splits=axis.
_values=null,axis._size>0&&(sidesWithAxes[i4]=!0,axis._el=placeDiv(AXIS,wrap))}}function autoPadSide(self2,side,sidesWithAxes2,cycleNum){
let[hasTopAxis,hasRgtAxis,hasBtmAxis,hasLftAxis]=sidesWithAxes2,ori=side%2,size=0;return ori==0&&(hasLftAxis||hasRgtAxis)&&
(size=side==0&&!hasTopAxis||side==2&&!hasBtmAxis?round(xAxisOpts.size/3):0),ori==1&&(hasTopAxis||hasBtmAxis)&&(size=side==
1&&!hasRgtAxis||side==3&&!hasLftAxis?round(yAxisOpts.size/2):0),size}let padding=self.padding=(opts.padding||[autoPadSide,
autoPadSide,autoPadSide,autoPadSide]).map(p3=>fnOrSelf(ifNull(p3,autoPadSide))),_padding=self._padding=padding.map((p3,i4)=>p3(
self,i4,sidesWithAxes,0)),dataLen,i0=null,i1=null,idxs=mode==1?series[0].idxs:null,data0=null,viaAutoScaleX=!1;function setData(_data,_resetScales){
if(data=_data??[],self.data=self._data=data,mode==2){dataLen=0;for(let i4=1;i4<series.length;i4++)dataLen+=data[i4][0].length}else{
data.length==0&&(self.data=self._data=data=[[]]),data0=data[0],dataLen=data0.length;let scaleData=data;if(xScaleDistr==2){
scaleData=data.slice();let _data0=scaleData[0]=Array(dataLen);for(let i4=0;i4<dataLen;i4++)_data0[i4]=i4}self._data=data=
scaleData}if(resetYSeries(!0),fire("setData"),xScaleDistr==2&&(shouldConvergeSize=!0),_resetScales!==!1){let xsc=scaleX;
xsc.auto(self,viaAutoScaleX)?autoScaleX():_setScale(xScaleKey,xsc.min,xsc.max),shouldSetCursor=shouldSetCursor||cursor.left>=
0,shouldSetLegend=!0,commit()}}self.setData=setData;function autoScaleX(){viaAutoScaleX=!0;let _min,_max;mode==1&&(dataLen>
0?(i0=idxs[0]=0,i1=idxs[1]=dataLen-1,_min=data[0][i0],_max=data[0][i1],xScaleDistr==2?(_min=i0,_max=i1):_min==_max&&(xScaleDistr==
3?[_min,_max]=rangeLog(_min,_min,scaleX.log,!1):xScaleDistr==4?[_min,_max]=rangeAsinh(_min,_min,scaleX.log,!1):scaleX.time?
_max=_min+round(86400/ms):[_min,_max]=rangeNum(_min,_max,rangePad,!0))):(i0=idxs[0]=_min=null,i1=idxs[1]=_max=null)),_setScale(
xScaleKey,_min,_max)}let ctxStroke,ctxFill,ctxWidth,ctxDash,ctxJoin,ctxCap,ctxFont,ctxAlign,ctxBaseline,ctxAlpha;function setCtxStyle(stroke,width,dash,cap,fill2,join2){
stroke??=transparent,dash??=EMPTY_ARR,cap??="butt",fill2??=transparent,join2??="round",stroke!=ctxStroke&&(ctx.strokeStyle=
ctxStroke=stroke),fill2!=ctxFill&&(ctx.fillStyle=ctxFill=fill2),width!=ctxWidth&&(ctx.lineWidth=ctxWidth=width),join2!=ctxJoin&&
(ctx.lineJoin=ctxJoin=join2),cap!=ctxCap&&(ctx.lineCap=ctxCap=cap),dash!=ctxDash&&ctx.setLineDash(ctxDash=dash)}function setFontStyle(font2,fill2,align,baseline){
fill2!=ctxFill&&(ctx.fillStyle=ctxFill=fill2),font2!=ctxFont&&(ctx.font=ctxFont=font2),align!=ctxAlign&&(ctx.textAlign=ctxAlign=
align),baseline!=ctxBaseline&&(ctx.textBaseline=ctxBaseline=baseline)}function accScale(wsc,psc,facet2,data2,sorted=0){if(data2.
length>0&&wsc.auto(self,viaAutoScaleX)&&(psc==null||psc.min==null)){let _i0=ifNull(i0,0),_i1=ifNull(i1,data2.length-1),minMax=facet2.
min==null?getMinMax(data2,_i0,_i1,sorted,wsc.distr==3):[facet2.min,facet2.max];wsc.min=min(wsc.min,facet2.min=minMax[0]),
wsc.max=max(wsc.max,facet2.max=minMax[1])}}let AUTOSCALE={min:null,max:null};function setScales(){for(let k2 in scales){
let sc=scales[k2];pendScales[k2]==null&&(sc.min==null||pendScales[xScaleKey]!=null&&sc.auto(self,viaAutoScaleX))&&(pendScales[k2]=
AUTOSCALE)}for(let k2 in scales){let sc=scales[k2];pendScales[k2]==null&&sc.from!=null&&pendScales[sc.from]!=null&&(pendScales[k2]=
AUTOSCALE)}pendScales[xScaleKey]!=null&&resetYSeries(!0);let wipScales={};for(let k2 in pendScales){let psc=pendScales[k2];
if(psc!=null){let wsc=wipScales[k2]=copy(scales[k2],fastIsObj);if(psc.min!=null)assign(wsc,psc);else if(k2!=xScaleKey||mode==
2)if(dataLen==0&&wsc.from==null){let minMax=wsc.range(self,null,null,k2);wsc.min=minMax[0],wsc.max=minMax[1]}else wsc.min=
inf,wsc.max=-inf}}if(dataLen>0){series.forEach((s3,i4)=>{if(mode==1){let k2=s3.scale,psc=pendScales[k2];if(psc==null)return;
let wsc=wipScales[k2];if(i4==0){let minMax=wsc.range(self,wsc.min,wsc.max,k2);wsc.min=minMax[0],wsc.max=minMax[1],i0=closestIdx(
wsc.min,data[0]),i1=closestIdx(wsc.max,data[0]),i1-i0>1&&(data[0][i0]<wsc.min&&i0++,data[0][i1]>wsc.max&&i1--),s3.min=data0[i0],
s3.max=data0[i1]}else s3.show&&s3.auto&&accScale(wsc,psc,s3,data[i4],s3.sorted);s3.idxs[0]=i0,s3.idxs[1]=i1}else if(i4>0&&
s3.show&&s3.auto){let[xFacet,yFacet]=s3.facets,xScaleKey2=xFacet.scale,yScaleKey=yFacet.scale,[xData,yData]=data[i4],wscx=wipScales[xScaleKey2],
wscy=wipScales[yScaleKey];wscx!=null&&accScale(wscx,pendScales[xScaleKey2],xFacet,xData,xFacet.sorted),wscy!=null&&accScale(
wscy,pendScales[yScaleKey],yFacet,yData,yFacet.sorted),s3.min=yFacet.min,s3.max=yFacet.max}});for(let k2 in wipScales){let wsc=wipScales[k2],
psc=pendScales[k2];if(wsc.from==null&&(psc==null||psc.min==null)){let minMax=wsc.range(self,wsc.min==inf?null:wsc.min,wsc.
max==-inf?null:wsc.max,k2);wsc.min=minMax[0],wsc.max=minMax[1]}}}for(let k2 in wipScales){let wsc=wipScales[k2];if(wsc.from!=
null){let base=wipScales[wsc.from];if(base.min==null)wsc.min=wsc.max=null;else{let minMax=wsc.range(self,base.min,base.max,
k2);wsc.min=minMax[0],wsc.max=minMax[1]}}}let changed={},anyChanged=!1;for(let k2 in wipScales){let wsc=wipScales[k2],sc=scales[k2];
if(sc.min!=wsc.min||sc.max!=wsc.max){sc.min=wsc.min,sc.max=wsc.max;let distr=sc.distr;sc._min=distr==3?log10(sc.min):distr==
4?asinh(sc.min,sc.asinh):distr==100?sc.fwd(sc.min):sc.min,sc._max=distr==3?log10(sc.max):distr==4?asinh(sc.max,sc.asinh):
distr==100?sc.fwd(sc.max):sc.max,changed[k2]=anyChanged=!0}}if(anyChanged){series.forEach((s3,i4)=>{mode==2?i4>0&&changed.
y&&(s3._paths=null):changed[s3.scale]&&(s3._paths=null)});for(let k2 in changed)shouldConvergeSize=!0,fire("setScale",k2);
showCursor&&cursor.left>=0&&(shouldSetCursor=shouldSetLegend=!0)}for(let k2 in pendScales)pendScales[k2]=null}function getOuterIdxs(ydata){
let _i0=clamp(i0-1,0,dataLen-1),_i1=clamp(i1+1,0,dataLen-1);for(;ydata[_i0]==null&&_i0>0;)_i0--;for(;ydata[_i1]==null&&_i1<
dataLen-1;)_i1++;return[_i0,_i1]}function drawSeries(){if(dataLen>0){let shouldAlpha=series.some(s3=>s3._focus)&&ctxAlpha!=
focus.alpha;shouldAlpha&&(ctx.globalAlpha=ctxAlpha=focus.alpha),series.forEach((s3,i4)=>{if(i4>0&&s3.show&&(cacheStrokeFill(
i4,!1),cacheStrokeFill(i4,!0),s3._paths==null)){let _ctxAlpha=ctxAlpha;ctxAlpha!=s3.alpha&&(ctx.globalAlpha=ctxAlpha=s3.
alpha);let _idxs=mode==2?[0,data[i4][0].length-1]:getOuterIdxs(data[i4]);s3._paths=s3.paths(self,i4,_idxs[0],_idxs[1]),ctxAlpha!=
_ctxAlpha&&(ctx.globalAlpha=ctxAlpha=_ctxAlpha)}}),series.forEach((s3,i4)=>{if(i4>0&&s3.show){let _ctxAlpha=ctxAlpha;ctxAlpha!=
s3.alpha&&(ctx.globalAlpha=ctxAlpha=s3.alpha),s3._paths!=null&&drawPath(i4,!1);{let _gaps=s3._paths!=null?s3._paths.gaps:
null,show=s3.points.show(self,i4,i0,i1,_gaps),idxs2=s3.points.filter(self,i4,show,_gaps);(show||idxs2)&&(s3.points._paths=
s3.points.paths(self,i4,i0,i1,idxs2),drawPath(i4,!0))}ctxAlpha!=_ctxAlpha&&(ctx.globalAlpha=ctxAlpha=_ctxAlpha),fire("dr\
awSeries",i4)}}),shouldAlpha&&(ctx.globalAlpha=ctxAlpha=1)}}function cacheStrokeFill(si,_points){let s3=_points?series[si].
points:series[si];s3._stroke=s3.stroke(self,si),s3._fill=s3.fill(self,si)}function drawPath(si,_points){let s3=_points?series[si].
points:series[si],{stroke,fill:fill2,clip:gapsClip,flags,_stroke:strokeStyle=s3._stroke,_fill:fillStyle=s3._fill,_width:width=s3.
width}=s3._paths;width=roundDec(width*pxRatio,3);let boundsClip=null,offset=width%2/2;_points&&fillStyle==null&&(fillStyle=
width>0?"#fff":strokeStyle);let _pxAlign=s3.pxAlign==1&&offset>0;if(_pxAlign&&ctx.translate(offset,offset),!_points){let lft=plotLft-
width/2,top=plotTop-width/2,wid=plotWid+width,hgt=plotHgt+width;boundsClip=new Path2D,boundsClip.rect(lft,top,wid,hgt)}_points?
strokeFill(strokeStyle,width,s3.dash,s3.cap,fillStyle,stroke,fill2,flags,gapsClip):fillStroke(si,strokeStyle,width,s3.dash,
s3.cap,fillStyle,stroke,fill2,flags,boundsClip,gapsClip),_pxAlign&&ctx.translate(-offset,-offset)}function fillStroke(si,strokeStyle,lineWidth,lineDash,lineCap,fillStyle,strokePath,fillPath,flags,boundsClip,gapsClip){
let didStrokeFill=!1;flags!=0&&bands.forEach((b2,bi)=>{if(b2.series[0]==si){let lowerEdge=series[b2.series[1]],lowerData=data[b2.
series[1]],bandClip=(lowerEdge._paths||EMPTY_OBJ).band;isArr(bandClip)&&(bandClip=b2.dir==1?bandClip[0]:bandClip[1]);let gapsClip2,
_fillStyle=null;lowerEdge.show&&bandClip&&hasData(lowerData,i0,i1)?(_fillStyle=b2.fill(self,bi)||fillStyle,gapsClip2=lowerEdge.
_paths.clip):bandClip=null,strokeFill(strokeStyle,lineWidth,lineDash,lineCap,_fillStyle,strokePath,fillPath,flags,boundsClip,
gapsClip,gapsClip2,bandClip),didStrokeFill=!0}}),didStrokeFill||strokeFill(strokeStyle,lineWidth,lineDash,lineCap,fillStyle,
strokePath,fillPath,flags,boundsClip,gapsClip)}let CLIP_FILL_STROKE=BAND_CLIP_FILL|BAND_CLIP_STROKE;function strokeFill(strokeStyle,lineWidth,lineDash,lineCap,fillStyle,strokePath,fillPath,flags,boundsClip,gapsClip,gapsClip2,bandClip){
setCtxStyle(strokeStyle,lineWidth,lineDash,lineCap,fillStyle),(boundsClip||gapsClip||bandClip)&&(ctx.save(),boundsClip&&
ctx.clip(boundsClip),gapsClip&&ctx.clip(gapsClip)),bandClip?(flags&CLIP_FILL_STROKE)==CLIP_FILL_STROKE?(ctx.clip(bandClip),
gapsClip2&&ctx.clip(gapsClip2),doFill(fillStyle,fillPath),doStroke(strokeStyle,strokePath,lineWidth)):flags&BAND_CLIP_STROKE?
(doFill(fillStyle,fillPath),ctx.clip(bandClip),doStroke(strokeStyle,strokePath,lineWidth)):flags&BAND_CLIP_FILL&&(ctx.save(),
ctx.clip(bandClip),gapsClip2&&ctx.clip(gapsClip2),doFill(fillStyle,fillPath),ctx.restore(),doStroke(strokeStyle,strokePath,
lineWidth)):(doFill(fillStyle,fillPath),doStroke(strokeStyle,strokePath,lineWidth)),(boundsClip||gapsClip||bandClip)&&ctx.
restore()}function doStroke(strokeStyle,strokePath,lineWidth){lineWidth>0&&(strokePath instanceof Map?strokePath.forEach(
(strokePath2,strokeStyle2)=>{ctx.strokeStyle=ctxStroke=strokeStyle2,ctx.stroke(strokePath2)}):strokePath!=null&&strokeStyle&&
ctx.stroke(strokePath))}function doFill(fillStyle,fillPath){fillPath instanceof Map?fillPath.forEach((fillPath2,fillStyle2)=>{
ctx.fillStyle=ctxFill=fillStyle2,ctx.fill(fillPath2)}):fillPath!=null&&fillStyle&&ctx.fill(fillPath)}function getIncrSpace(axisIdx,min2,max2,fullDim){
let axis=axes[axisIdx],incrSpace;if(fullDim<=0)incrSpace=[0,0];else{let minSpace=axis._space=axis.space(self,axisIdx,min2,
max2,fullDim),incrs=axis._incrs=axis.incrs(self,axisIdx,min2,max2,fullDim,minSpace);incrSpace=findIncr(min2,max2,incrs,fullDim,
minSpace)}return axis._found=incrSpace}function drawOrthoLines(offs,filts,ori,side,pos0,len,width,stroke,dash,cap){let offset=width%
2/2;pxAlign==1&&ctx.translate(offset,offset),setCtxStyle(stroke,width,dash,cap,stroke),ctx.beginPath();let x0,y0,x1,y1,pos1=pos0+
(side==0||side==3?-len:len);ori==0?(y0=pos0,y1=pos1):(x0=pos0,x1=pos1);for(let i4=0;i4<offs.length;i4++)filts[i4]!=null&&
(ori==0?x0=x1=offs[i4]:y0=y1=offs[i4],ctx.moveTo(x0,y0),ctx.lineTo(x1,y1));ctx.stroke(),pxAlign==1&&ctx.translate(-offset,
-offset)}function axesCalc(cycleNum){let converged=!0;return axes.forEach((axis,i4)=>{if(!axis.show)return;let scale=scales[axis.
scale];if(scale.min==null){axis._show&&(converged=!1,axis._show=!1,resetYSeries(!1));return}else axis._show||(converged=
!1,axis._show=!0,resetYSeries(!1));let side=axis.side,ori=side%2,{min:min2,max:max2}=scale,[_incr,_space]=getIncrSpace(i4,
min2,max2,ori==0?plotWidCss:plotHgtCss);if(_space==0)return;let forceMin=scale.distr==2,_splits=axis._splits=axis.splits(
self,i4,min2,max2,_incr,_space,forceMin),splits=scale.distr==2?_splits.map(i5=>data0[i5]):_splits,incr=scale.distr==2?data0[_splits[1]]-
data0[_splits[0]]:_incr,values=axis._values=axis.values(self,axis.filter(self,splits,i4,_space,incr),i4,_space,incr);axis.
_rotate=side==2?axis.rotate(self,values,i4,_space):0;let oldSize=axis._size;axis._size=ceil(axis.size(self,values,i4,cycleNum)),
oldSize!=null&&axis._size!=oldSize&&(converged=!1)}),converged}function paddingCalc(cycleNum){let converged=!0;return padding.
forEach((p3,i4)=>{let _p=p3(self,i4,sidesWithAxes,cycleNum);_p!=_padding[i4]&&(converged=!1),_padding[i4]=_p}),converged}
function drawAxesGrid(){for(let i4=0;i4<axes.length;i4++){let axis=axes[i4];if(!axis.show||!axis._show)continue;let side=axis.
side,ori=side%2,x2,y2,fillStyle=axis.stroke(self,i4),shiftDir=side==0||side==3?-1:1,[_incr,_space]=axis._found;if(axis.label!=
null){let shiftAmt2=axis.labelGap*shiftDir,baseLpos=round((axis._lpos+shiftAmt2)*pxRatio);setFontStyle(axis.labelFont[0],
fillStyle,"center",side==2?"top":BOTTOM),ctx.save(),ori==1?(x2=y2=0,ctx.translate(baseLpos,round(plotTop+plotHgt/2)),ctx.
rotate((side==3?-PI:PI)/2)):(x2=round(plotLft+plotWid/2),y2=baseLpos);let _label=isFn(axis.label)?axis.label(self,i4,_incr,
_space):axis.label;ctx.fillText(_label,x2,y2),ctx.restore()}if(_space==0)continue;let scale=scales[axis.scale],plotDim=ori==
0?plotWid:plotHgt,plotOff=ori==0?plotLft:plotTop,_splits=axis._splits,splits=scale.distr==2?_splits.map(i5=>data0[i5]):_splits,
incr=scale.distr==2?data0[_splits[1]]-data0[_splits[0]]:_incr,ticks3=axis.ticks,border2=axis.border,_tickSize=ticks3.show?
ticks3.size:0,tickSize=round(_tickSize*pxRatio),axisGap=round((axis.alignTo==2?axis._size-_tickSize-axis.gap:axis.gap)*pxRatio),
angle=axis._rotate*-PI/180,basePos=pxRound(axis._pos*pxRatio),shiftAmt=(tickSize+axisGap)*shiftDir,finalPos=basePos+shiftAmt;
y2=ori==0?finalPos:0,x2=ori==1?finalPos:0;let font2=axis.font[0],textAlign=axis.align==1?LEFT:axis.align==2?RIGHT:angle>
0?LEFT:angle<0?RIGHT:ori==0?"center":side==3?RIGHT:LEFT,textBaseline=angle||ori==1?"middle":side==2?"top":BOTTOM;setFontStyle(
font2,fillStyle,textAlign,textBaseline);let lineHeight=axis.font[1]*axis.lineGap,canOffs=_splits.map(val=>pxRound(getPos(
val,scale,plotDim,plotOff))),_values=axis._values;for(let i5=0;i5<_values.length;i5++){let val=_values[i5];if(val!=null){
ori==0?x2=canOffs[i5]:y2=canOffs[i5],val=""+val;let _parts=val.indexOf(`
`)==-1?[val]:val.split(/\n/gm);for(let j2=0;j2<_parts.length;j2++){let text=_parts[j2];angle?(ctx.save(),ctx.translate(x2,
y2+j2*lineHeight),ctx.rotate(angle),ctx.fillText(text,0,0),ctx.restore()):ctx.fillText(text,x2,y2+j2*lineHeight)}}}ticks3.
show&&drawOrthoLines(canOffs,ticks3.filter(self,splits,i4,_space,incr),ori,side,basePos,tickSize,roundDec(ticks3.width*pxRatio,
3),ticks3.stroke(self,i4),ticks3.dash,ticks3.cap);let grid2=axis.grid;grid2.show&&drawOrthoLines(canOffs,grid2.filter(self,
splits,i4,_space,incr),ori,ori==0?2:1,ori==0?plotTop:plotLft,ori==0?plotHgt:plotWid,roundDec(grid2.width*pxRatio,3),grid2.
stroke(self,i4),grid2.dash,grid2.cap),border2.show&&drawOrthoLines([basePos],[1],ori==0?1:0,ori==0?1:2,ori==1?plotTop:plotLft,
ori==1?plotHgt:plotWid,roundDec(border2.width*pxRatio,3),border2.stroke(self,i4),border2.dash,border2.cap)}fire("drawAxe\
s")}function resetYSeries(minMax){series.forEach((s3,i4)=>{i4>0&&(s3._paths=null,minMax&&(mode==1?(s3.min=null,s3.max=null):
s3.facets.forEach(f2=>{f2.min=null,f2.max=null})))})}let queuedCommit=!1,deferHooks=!1,hooksQueue=[];function flushHooks(){
deferHooks=!1;for(let i4=0;i4<hooksQueue.length;i4++)fire(...hooksQueue[i4]);hooksQueue.length=0}function commit(){queuedCommit||
(microTask(_commit),queuedCommit=!0)}function batch(fn,_deferHooks=!1){queuedCommit=!0,deferHooks=_deferHooks,fn(self),_commit(),
_deferHooks&&hooksQueue.length>0&&queueMicrotask(flushHooks)}self.batch=batch;function _commit(){if(shouldSetScales&&(setScales(),
shouldSetScales=!1),shouldConvergeSize&&(convergeSize(),shouldConvergeSize=!1),shouldSetSize){if(setStylePx(under,LEFT,plotLftCss),
setStylePx(under,"top",plotTopCss),setStylePx(under,WIDTH,plotWidCss),setStylePx(under,HEIGHT,plotHgtCss),setStylePx(over,
LEFT,plotLftCss),setStylePx(over,"top",plotTopCss),setStylePx(over,WIDTH,plotWidCss),setStylePx(over,HEIGHT,plotHgtCss),
setStylePx(wrap,WIDTH,fullWidCss),setStylePx(wrap,HEIGHT,fullHgtCss),can.width=round(fullWidCss*pxRatio),can.height=round(
fullHgtCss*pxRatio),axes.forEach(({_el,_show,_size,_pos,side})=>{if(_el!=null)if(_show){let posOffset=side===3||side===0?
_size:0,isVt=side%2==1;setStylePx(_el,isVt?"left":"top",_pos-posOffset),setStylePx(_el,isVt?"width":"height",_size),setStylePx(
_el,isVt?"top":"left",isVt?plotTopCss:plotLftCss),setStylePx(_el,isVt?"height":"width",isVt?plotHgtCss:plotWidCss),remClass(
_el,OFF)}else addClass(_el,OFF)}),ctxStroke=ctxFill=ctxWidth=ctxJoin=ctxCap=ctxFont=ctxAlign=ctxBaseline=ctxDash=null,ctxAlpha=
1,syncRect(!0),plotLftCss!=_plotLftCss||plotTopCss!=_plotTopCss||plotWidCss!=_plotWidCss||plotHgtCss!=_plotHgtCss){resetYSeries(
!1);let pctWid=plotWidCss/_plotWidCss,pctHgt=plotHgtCss/_plotHgtCss;if(showCursor&&!shouldSetCursor&&cursor.left>=0){cursor.
left*=pctWid,cursor.top*=pctHgt,vCursor&&elTrans(vCursor,round(cursor.left),0,plotWidCss,plotHgtCss),hCursor&&elTrans(hCursor,
0,round(cursor.top),plotWidCss,plotHgtCss);for(let i4=0;i4<cursorPts.length;i4++){let pt=cursorPts[i4];pt!=null&&(cursorPtsLft[i4]*=
pctWid,cursorPtsTop[i4]*=pctHgt,elTrans(pt,ceil(cursorPtsLft[i4]),ceil(cursorPtsTop[i4]),plotWidCss,plotHgtCss))}}if(select.
show&&!shouldSetSelect&&select.left>=0&&select.width>0){select.left*=pctWid,select.width*=pctWid,select.top*=pctHgt,select.
height*=pctHgt;for(let prop in _hideProps)setStylePx(selectDiv,prop,select[prop])}_plotLftCss=plotLftCss,_plotTopCss=plotTopCss,
_plotWidCss=plotWidCss,_plotHgtCss=plotHgtCss}fire("setSize"),shouldSetSize=!1}fullWidCss>0&&fullHgtCss>0&&(ctx.clearRect(
0,0,can.width,can.height),fire("drawClear"),drawOrder.forEach(fn=>fn()),fire("draw")),select.show&&shouldSetSelect&&(setSelect(
select),shouldSetSelect=!1),showCursor&&shouldSetCursor&&(updateCursor(null,!0,!1),shouldSetCursor=!1),legend3.show&&legend3.
live&&shouldSetLegend&&(setLegend(),shouldSetLegend=!1),ready||(ready=!0,self.status=1,fire("ready")),viaAutoScaleX=!1,queuedCommit=
!1}self.redraw=(rebuildPaths,recalcAxes)=>{shouldConvergeSize=recalcAxes||!1,rebuildPaths!==!1?_setScale(xScaleKey,scaleX.
min,scaleX.max):commit()};function setScale(key2,opts2){let sc=scales[key2];if(sc.from==null){if(dataLen==0){let minMax=sc.
range(self,opts2.min,opts2.max,key2);opts2.min=minMax[0],opts2.max=minMax[1]}if(opts2.min>opts2.max){let _min=opts2.min;
opts2.min=opts2.max,opts2.max=_min}if(dataLen>1&&opts2.min!=null&&opts2.max!=null&&opts2.max-opts2.min<1e-16)return;key2==
xScaleKey&&sc.distr==2&&dataLen>0&&(opts2.min=closestIdx(opts2.min,data[0]),opts2.max=closestIdx(opts2.max,data[0]),opts2.
min==opts2.max&&opts2.max++),pendScales[key2]=opts2,shouldSetScales=!0,commit()}}self.setScale=setScale;let xCursor,yCursor,
vCursor,hCursor,rawMouseLeft0,rawMouseTop0,mouseLeft0,mouseTop0,rawMouseLeft1,rawMouseTop1,mouseLeft1,mouseTop1,dragging=!1,
drag=cursor.drag,dragX=drag.x,dragY=drag.y;showCursor&&(cursor.x&&(xCursor=placeDiv(CURSOR_X,over)),cursor.y&&(yCursor=placeDiv(
CURSOR_Y,over)),scaleX.ori==0?(vCursor=xCursor,hCursor=yCursor):(vCursor=yCursor,hCursor=xCursor),mouseLeft1=cursor.left,
mouseTop1=cursor.top);let select=self.select=assign({show:!0,over:!0,left:0,width:0,top:0,height:0},opts.select),selectDiv=select.
show?placeDiv(SELECT,select.over?over:under):null;function setSelect(opts2,_fire){if(select.show){for(let prop in opts2)
select[prop]=opts2[prop],prop in _hideProps&&setStylePx(selectDiv,prop,opts2[prop]);_fire!==!1&&fire("setSelect")}}self.
setSelect=setSelect;function toggleDOM(i4){if(series[i4].show)showLegend&&remClass(legendRows[i4],OFF);else if(showLegend&&
addClass(legendRows[i4],OFF),showCursor){let pt=cursorOnePt?cursorPts[0]:cursorPts[i4];pt!=null&&elTrans(pt,-10,-10,plotWidCss,
plotHgtCss)}}function _setScale(key2,min2,max2){setScale(key2,{min:min2,max:max2})}function setSeries(i4,opts2,_fire,_pub){
opts2.focus!=null&&setFocus(i4),opts2.show!=null&&series.forEach((s3,si)=>{si>0&&(i4==si||i4==null)&&(s3.show=opts2.show,
toggleDOM(si),mode==2?(_setScale(s3.facets[0].scale,null,null),_setScale(s3.facets[1].scale,null,null)):_setScale(s3.scale,
null,null),commit())}),_fire!==!1&&fire("setSeries",i4,opts2),_pub&&pubSync("setSeries",self,i4,opts2)}self.setSeries=setSeries;
function setBand(bi,opts2){assign(bands[bi],opts2)}function addBand(opts2,bi){opts2.fill=fnOrSelf(opts2.fill||null),opts2.
dir=ifNull(opts2.dir,-1),bi=bi??bands.length,bands.splice(bi,0,opts2)}function delBand(bi){bi==null?bands.length=0:bands.
splice(bi,1)}self.addBand=addBand,self.setBand=setBand,self.delBand=delBand;function setAlpha(i4,value){series[i4].alpha=
value,showCursor&&cursorPts[i4]!=null&&(cursorPts[i4].style.opacity=value),showLegend&&legendRows[i4]&&(legendRows[i4].style.
opacity=value)}let closestDist,closestSeries,focusedSeries,FOCUS_TRUE={focus:!0};function setFocus(i4){if(i4!=focusedSeries){
let allFocused=i4==null,_setAlpha=focus.alpha!=1;series.forEach((s3,i22)=>{if(mode==1||i22>0){let isFocused=allFocused||
i22==0||i22==i4;s3._focus=allFocused?null:isFocused,_setAlpha&&setAlpha(i22,isFocused?1:focus.alpha)}}),focusedSeries=i4,
_setAlpha&&commit()}}showLegend&&cursorFocus&&onMouse(mouseleave,legendTable,e3=>{cursor._lock||(setCursorEvent(e3),focusedSeries!=
null&&setSeries(null,FOCUS_TRUE,!0,syncOpts.setSeries))});function posToVal(pos,scale,can2){let sc=scales[scale];can2&&(pos=
pos/pxRatio-(sc.ori==1?plotTopCss:plotLftCss));let dim=plotWidCss;sc.ori==1&&(dim=plotHgtCss,pos=dim-pos),sc.dir==-1&&(pos=
dim-pos);let _min=sc._min,_max=sc._max,pct=pos/dim,sv=_min+(_max-_min)*pct,distr=sc.distr;return distr==3?pow(10,sv):distr==
4?sinh(sv,sc.asinh):distr==100?sc.bwd(sv):sv}function closestIdxFromXpos(pos,can2){let v3=posToVal(pos,xScaleKey,can2);return closestIdx(
v3,data[0],i0,i1)}self.valToIdx=val=>closestIdx(val,data[0]),self.posToIdx=closestIdxFromXpos,self.posToVal=posToVal,self.
valToPos=(val,scale,can2)=>scales[scale].ori==0?getHPos(val,scales[scale],can2?plotWid:plotWidCss,can2?plotLft:0):getVPos(
val,scales[scale],can2?plotHgt:plotHgtCss,can2?plotTop:0),self.setCursor=(opts2,_fire,_pub)=>{mouseLeft1=opts2.left,mouseTop1=
opts2.top,updateCursor(null,_fire,_pub)};function setSelH(off2,dim){setStylePx(selectDiv,LEFT,select.left=off2),setStylePx(
selectDiv,WIDTH,select.width=dim)}function setSelV(off2,dim){setStylePx(selectDiv,"top",select.top=off2),setStylePx(selectDiv,
HEIGHT,select.height=dim)}let setSelX=scaleX.ori==0?setSelH:setSelV,setSelY=scaleX.ori==1?setSelH:setSelV;function syncLegend(){
if(showLegend&&legend3.live)for(let i4=mode==2?1:0;i4<series.length;i4++){if(i4==0&&multiValLegend)continue;let vals=legend3.
values[i4],j2=0;for(let k2 in vals)legendCells[i4][j2++].firstChild.nodeValue=vals[k2]}}function setLegend(opts2,_fire){
if(opts2!=null&&(opts2.idxs?opts2.idxs.forEach((didx,sidx)=>{activeIdxs[sidx]=didx}):isUndef(opts2.idx)||activeIdxs.fill(
opts2.idx),legend3.idx=activeIdxs[0]),showLegend&&legend3.live){for(let sidx=0;sidx<series.length;sidx++)(sidx>0||mode==
1&&!multiValLegend)&&setLegendValues(sidx,activeIdxs[sidx]);syncLegend()}shouldSetLegend=!1,_fire!==!1&&fire("setLegend")}
self.setLegend=setLegend;function setLegendValues(sidx,idx){let s3=series[sidx],src=sidx==0&&xScaleDistr==2?data0:data[sidx],
val;multiValLegend?val=s3.values(self,sidx,idx)??NULL_LEGEND_VALUES:(val=s3.value(self,idx==null?null:src[idx],sidx,idx),
val=val==null?NULL_LEGEND_VALUES:{_:val}),legend3.values[sidx]=val}function updateCursor(src,_fire,_pub){rawMouseLeft1=mouseLeft1,
rawMouseTop1=mouseTop1,[mouseLeft1,mouseTop1]=cursor.move(self,mouseLeft1,mouseTop1),cursor.left=mouseLeft1,cursor.top=mouseTop1,
showCursor&&(vCursor&&elTrans(vCursor,round(mouseLeft1),0,plotWidCss,plotHgtCss),hCursor&&elTrans(hCursor,0,round(mouseTop1),
plotWidCss,plotHgtCss));let idx,noDataInRange=i0>i1;closestDist=inf,closestSeries=null;let xDim=scaleX.ori==0?plotWidCss:
plotHgtCss,yDim=scaleX.ori==1?plotWidCss:plotHgtCss;if(mouseLeft1<0||dataLen==0||noDataInRange){idx=cursor.idx=null;for(let i4=0;i4<
series.length;i4++){let pt=cursorPts[i4];pt!=null&&elTrans(pt,-10,-10,plotWidCss,plotHgtCss)}cursorFocus&&setSeries(null,
FOCUS_TRUE,!0,src==null&&syncOpts.setSeries),legend3.live&&(activeIdxs.fill(idx),shouldSetLegend=!0)}else{let mouseXPos,
valAtPosX,xPos;mode==1&&(mouseXPos=scaleX.ori==0?mouseLeft1:mouseTop1,valAtPosX=posToVal(mouseXPos,xScaleKey),idx=cursor.
idx=closestIdx(valAtPosX,data[0],i0,i1),xPos=valToPosX(data[0][idx],scaleX,xDim,0));let _ptLft=-10,_ptTop=-10,_ptWid=0,_ptHgt=0,
_centered=!0,_ptFill="",_ptStroke="";for(let i4=mode==2?1:0;i4<series.length;i4++){let s3=series[i4],idx1=activeIdxs[i4],
yVal1=idx1==null?null:mode==1?data[i4][idx1]:data[i4][1][idx1],idx2=cursor.dataIdx(self,i4,idx,valAtPosX),yVal2=idx2==null?
null:mode==1?data[i4][idx2]:data[i4][1][idx2];if(shouldSetLegend=shouldSetLegend||yVal2!=yVal1||idx2!=idx1,activeIdxs[i4]=
idx2,i4>0&&s3.show){let xPos2=idx2==null?-10:idx2==idx?xPos:valToPosX(mode==1?data[0][idx2]:data[i4][0][idx2],scaleX,xDim,
0),yPos=yVal2==null?-10:valToPosY(yVal2,mode==1?scales[s3.scale]:scales[s3.facets[1].scale],yDim,0);if(cursorFocus&&yVal2!=
null){let mouseYPos=scaleX.ori==1?mouseLeft1:mouseTop1,dist=abs(focus.dist(self,i4,idx2,yPos,mouseYPos));if(dist<closestDist){
let bias=focus.bias;if(bias!=0){let mouseYVal=posToVal(mouseYPos,s3.scale),seriesYValSign=yVal2>=0?1:-1,mouseYValSign=mouseYVal>=
0?1:-1;mouseYValSign==seriesYValSign&&(mouseYValSign==1?bias==1?yVal2>=mouseYVal:yVal2<=mouseYVal:bias==1?yVal2<=mouseYVal:
yVal2>=mouseYVal)&&(closestDist=dist,closestSeries=i4)}else closestDist=dist,closestSeries=i4}}if(shouldSetLegend||cursorOnePt){
let hPos,vPos;scaleX.ori==0?(hPos=xPos2,vPos=yPos):(hPos=yPos,vPos=xPos2);let ptWid,ptHgt,ptLft,ptTop,ptStroke,ptFill,centered=!0,
getBBox=points2.bbox;if(getBBox!=null){centered=!1;let bbox=getBBox(self,i4);ptLft=bbox.left,ptTop=bbox.top,ptWid=bbox.width,
ptHgt=bbox.height}else ptLft=hPos,ptTop=vPos,ptWid=ptHgt=points2.size(self,i4);if(ptFill=points2.fill(self,i4),ptStroke=
points2.stroke(self,i4),cursorOnePt)i4==closestSeries&&closestDist<=focus.prox&&(_ptLft=ptLft,_ptTop=ptTop,_ptWid=ptWid,
_ptHgt=ptHgt,_centered=centered,_ptFill=ptFill,_ptStroke=ptStroke);else{let pt=cursorPts[i4];pt!=null&&(cursorPtsLft[i4]=
ptLft,cursorPtsTop[i4]=ptTop,elSize(pt,ptWid,ptHgt,centered),elColor(pt,ptFill,ptStroke),elTrans(pt,ceil(ptLft),ceil(ptTop),
plotWidCss,plotHgtCss))}}}}if(cursorOnePt){let p3=focus.prox,focusChanged=focusedSeries==null?closestDist<=p3:closestDist>
p3||closestSeries!=focusedSeries;if(shouldSetLegend||focusChanged){let pt=cursorPts[0];pt!=null&&(cursorPtsLft[0]=_ptLft,
cursorPtsTop[0]=_ptTop,elSize(pt,_ptWid,_ptHgt,_centered),elColor(pt,_ptFill,_ptStroke),elTrans(pt,ceil(_ptLft),ceil(_ptTop),
plotWidCss,plotHgtCss))}}}if(select.show&&dragging)if(src!=null){let[xKey,yKey]=syncOpts.scales,[matchXKeys,matchYKeys]=syncOpts.
match,[xKeySrc,yKeySrc]=src.cursor.sync.scales,sdrag=src.cursor.drag;if(dragX=sdrag._x,dragY=sdrag._y,dragX||dragY){let{
left,top,width,height}=src.select,sori=src.scales[xKeySrc].ori,sPosToVal=src.posToVal,sOff,sDim,sc,a2,b2,matchingX=xKey!=
null&&matchXKeys(xKey,xKeySrc),matchingY=yKey!=null&&matchYKeys(yKey,yKeySrc);matchingX&&dragX?(sori==0?(sOff=left,sDim=
width):(sOff=top,sDim=height),sc=scales[xKey],a2=valToPosX(sPosToVal(sOff,xKeySrc),sc,xDim,0),b2=valToPosX(sPosToVal(sOff+
sDim,xKeySrc),sc,xDim,0),setSelX(min(a2,b2),abs(b2-a2))):setSelX(0,xDim),matchingY&&dragY?(sori==1?(sOff=left,sDim=width):
(sOff=top,sDim=height),sc=scales[yKey],a2=valToPosY(sPosToVal(sOff,yKeySrc),sc,yDim,0),b2=valToPosY(sPosToVal(sOff+sDim,
yKeySrc),sc,yDim,0),setSelY(min(a2,b2),abs(b2-a2))):setSelY(0,yDim)}else hideSelect()}else{let rawDX=abs(rawMouseLeft1-rawMouseLeft0),
rawDY=abs(rawMouseTop1-rawMouseTop0);if(scaleX.ori==1){let _rawDX=rawDX;rawDX=rawDY,rawDY=_rawDX}dragX=drag.x&&rawDX>=drag.
dist,dragY=drag.y&&rawDY>=drag.dist;let uni=drag.uni;uni!=null?dragX&&dragY&&(dragX=rawDX>=uni,dragY=rawDY>=uni,!dragX&&
!dragY&&(rawDY>rawDX?dragY=!0:dragX=!0)):drag.x&&drag.y&&(dragX||dragY)&&(dragX=dragY=!0);let p0,p1;dragX&&(scaleX.ori==
0?(p0=mouseLeft0,p1=mouseLeft1):(p0=mouseTop0,p1=mouseTop1),setSelX(min(p0,p1),abs(p1-p0)),dragY||setSelY(0,yDim)),dragY&&
(scaleX.ori==1?(p0=mouseLeft0,p1=mouseLeft1):(p0=mouseTop0,p1=mouseTop1),setSelY(min(p0,p1),abs(p1-p0)),dragX||setSelX(0,
xDim)),!dragX&&!dragY&&(setSelX(0,0),setSelY(0,0))}if(drag._x=dragX,drag._y=dragY,src==null){if(_pub){if(syncKey!=null){
let[xSyncKey,ySyncKey]=syncOpts.scales;syncOpts.values[0]=xSyncKey!=null?posToVal(scaleX.ori==0?mouseLeft1:mouseTop1,xSyncKey):
null,syncOpts.values[1]=ySyncKey!=null?posToVal(scaleX.ori==1?mouseLeft1:mouseTop1,ySyncKey):null}pubSync(mousemove,self,
mouseLeft1,mouseTop1,plotWidCss,plotHgtCss,idx)}if(cursorFocus){let shouldPub=_pub&&syncOpts.setSeries,p3=focus.prox;focusedSeries==
null?closestDist<=p3&&setSeries(closestSeries,FOCUS_TRUE,!0,shouldPub):closestDist>p3?setSeries(null,FOCUS_TRUE,!0,shouldPub):
closestSeries!=focusedSeries&&setSeries(closestSeries,FOCUS_TRUE,!0,shouldPub)}}shouldSetLegend&&(legend3.idx=idx,setLegend()),
_fire!==!1&&fire("setCursor")}let rect2=null;Object.defineProperty(self,"rect",{get(){return rect2==null&&syncRect(!1),rect2}});
function syncRect(defer=!1){defer?rect2=null:(rect2=over.getBoundingClientRect(),fire("syncRect",rect2))}function mouseMove(e3,src,_l,_t,_w,_h,_i){
cursor._lock||dragging&&e3!=null&&e3.movementX==0&&e3.movementY==0||(cacheMouse(e3,src,_l,_t,_w,_h,_i,!1,e3!=null),e3!=null?
updateCursor(null,!0,!0):updateCursor(src,!0,!1))}function cacheMouse(e3,src,_l,_t,_w,_h,_i,initial,snap){if(rect2==null&&
syncRect(!1),setCursorEvent(e3),e3!=null)_l=e3.clientX-rect2.left,_t=e3.clientY-rect2.top;else{if(_l<0||_t<0){mouseLeft1=
-10,mouseTop1=-10;return}let[xKey,yKey]=syncOpts.scales,syncOptsSrc=src.cursor.sync,[xValSrc,yValSrc]=syncOptsSrc.values,
[xKeySrc,yKeySrc]=syncOptsSrc.scales,[matchXKeys,matchYKeys]=syncOpts.match,rotSrc=src.axes[0].side%2==1,xDim=scaleX.ori==
0?plotWidCss:plotHgtCss,yDim=scaleX.ori==1?plotWidCss:plotHgtCss,_xDim=rotSrc?_h:_w,_yDim=rotSrc?_w:_h,_xPos=rotSrc?_t:_l,
_yPos=rotSrc?_l:_t;if(xKeySrc!=null?_l=matchXKeys(xKey,xKeySrc)?getPos(xValSrc,scales[xKey],xDim,0):-10:_l=xDim*(_xPos/_xDim),
yKeySrc!=null?_t=matchYKeys(yKey,yKeySrc)?getPos(yValSrc,scales[yKey],yDim,0):-10:_t=yDim*(_yPos/_yDim),scaleX.ori==1){let __l=_l;
_l=_t,_t=__l}}snap&&(src==null||src.cursor.event.type==mousemove)&&((_l<=1||_l>=plotWidCss-1)&&(_l=incrRound(_l,plotWidCss)),
(_t<=1||_t>=plotHgtCss-1)&&(_t=incrRound(_t,plotHgtCss))),initial?(rawMouseLeft0=_l,rawMouseTop0=_t,[mouseLeft0,mouseTop0]=
cursor.move(self,_l,_t)):(mouseLeft1=_l,mouseTop1=_t)}let _hideProps={width:0,height:0,left:0,top:0};function hideSelect(){
setSelect(_hideProps,!1)}let downSelectLeft,downSelectTop,downSelectWidth,downSelectHeight;function mouseDown(e3,src,_l,_t,_w,_h,_i){
dragging=!0,dragX=dragY=drag._x=drag._y=!1,cacheMouse(e3,src,_l,_t,_w,_h,_i,!0,!1),e3!=null&&(onMouse(mouseup,doc,mouseUp,
!1),pubSync(mousedown,self,mouseLeft0,mouseTop0,plotWidCss,plotHgtCss,null));let{left,top,width,height}=select;downSelectLeft=
left,downSelectTop=top,downSelectWidth=width,downSelectHeight=height}function mouseUp(e3,src,_l,_t,_w,_h,_i){dragging=drag.
_x=drag._y=!1,cacheMouse(e3,src,_l,_t,_w,_h,_i,!1,!0);let{left,top,width,height}=select,hasSelect=width>0||height>0,chgSelect=downSelectLeft!=
left||downSelectTop!=top||downSelectWidth!=width||downSelectHeight!=height;if(hasSelect&&chgSelect&&setSelect(select),drag.
setScale&&hasSelect&&chgSelect){let xOff=left,xDim=width,yOff=top,yDim=height;if(scaleX.ori==1&&(xOff=top,xDim=height,yOff=
left,yDim=width),dragX&&_setScale(xScaleKey,posToVal(xOff,xScaleKey),posToVal(xOff+xDim,xScaleKey)),dragY)for(let k2 in scales){
let sc=scales[k2];k2!=xScaleKey&&sc.from==null&&sc.min!=inf&&_setScale(k2,posToVal(yOff+yDim,k2),posToVal(yOff,k2))}hideSelect()}else
cursor.lock&&(cursor._lock=!cursor._lock,updateCursor(src,!0,e3!=null));e3!=null&&(offMouse(mouseup,doc),pubSync(mouseup,
self,mouseLeft1,mouseTop1,plotWidCss,plotHgtCss,null))}function mouseLeave(e3,src,_l,_t,_w,_h,_i){if(cursor._lock)return;
setCursorEvent(e3);let _dragging=dragging;if(dragging){let snapH=!0,snapV=!0,snapProx=10,dragH,dragV;scaleX.ori==0?(dragH=
dragX,dragV=dragY):(dragH=dragY,dragV=dragX),dragH&&dragV&&(snapH=mouseLeft1<=snapProx||mouseLeft1>=plotWidCss-snapProx,
snapV=mouseTop1<=snapProx||mouseTop1>=plotHgtCss-snapProx),dragH&&snapH&&(mouseLeft1=mouseLeft1<mouseLeft0?0:plotWidCss),
dragV&&snapV&&(mouseTop1=mouseTop1<mouseTop0?0:plotHgtCss),updateCursor(null,!0,!0),dragging=!1}mouseLeft1=-10,mouseTop1=
-10,activeIdxs.fill(null),updateCursor(null,!0,!0),_dragging&&(dragging=_dragging)}function dblClick(e3,src,_l,_t,_w,_h,_i){
cursor._lock||(setCursorEvent(e3),autoScaleX(),hideSelect(),e3!=null&&pubSync(dblclick,self,mouseLeft1,mouseTop1,plotWidCss,
plotHgtCss,null))}function syncPxRatio(){axes.forEach(syncFontSize),_setSize(self.width,self.height,!0)}on(dppxchange,win,
syncPxRatio);let events2={};events2.mousedown=mouseDown,events2.mousemove=mouseMove,events2.mouseup=mouseUp,events2.dblclick=
dblClick,events2.setSeries=(e3,src,idx,opts2)=>{let seriesIdxMatcher2=syncOpts.match[2];idx=seriesIdxMatcher2(self,src,idx),
idx!=-1&&setSeries(idx,opts2,!0,!1)},showCursor&&(onMouse(mousedown,over,mouseDown),onMouse(mousemove,over,mouseMove),onMouse(
mouseenter,over,e3=>{setCursorEvent(e3),syncRect(!1)}),onMouse(mouseleave,over,mouseLeave),onMouse(dblclick,over,dblClick),
cursorPlots.add(self),self.syncRect=syncRect);let hooks=self.hooks=opts.hooks||{};function fire(evName,a1,a2){deferHooks?
hooksQueue.push([evName,a1,a2]):evName in hooks&&hooks[evName].forEach(fn=>{fn.call(null,self,a1,a2)})}(opts.plugins||[]).
forEach(p3=>{for(let evName in p3.hooks)hooks[evName]=(hooks[evName]||[]).concat(p3.hooks[evName])});let seriesIdxMatcher=(self2,src,srcSeriesIdx)=>srcSeriesIdx,
syncOpts=assign({key:null,setSeries:!1,filters:{pub:retTrue,sub:retTrue},scales:[xScaleKey,series[1]?series[1].scale:null],
match:[retEq,retEq,seriesIdxMatcher],values:[null,null]},cursor.sync);syncOpts.match.length==2&&syncOpts.match.push(seriesIdxMatcher),
cursor.sync=syncOpts;let syncKey=syncOpts.key,sync=_sync(syncKey);function pubSync(type,src,x2,y2,w2,h3,i4){syncOpts.filters.
pub(type,src,x2,y2,w2,h3,i4)&&sync.pub(type,src,x2,y2,w2,h3,i4)}sync.sub(self);function pub(type,src,x2,y2,w2,h3,i4){syncOpts.
filters.sub(type,src,x2,y2,w2,h3,i4)&&events2[type](null,src,x2,y2,w2,h3,i4)}self.pub=pub;function destroy(){sync.unsub(
self),cursorPlots.delete(self),mouseListeners.clear(),off(dppxchange,win,syncPxRatio),root2.remove(),legendTable?.remove(),
fire("destroy")}self.destroy=destroy;function _init(){fire("init",opts,data),setData(data||opts.data,!1),pendScales[xScaleKey]?
setScale(xScaleKey,pendScales[xScaleKey]):autoScaleX(),shouldSetSelect=select.show&&(select.width>0||select.height>0),shouldSetCursor=
shouldSetLegend=!0,_setSize(opts.width,opts.height)}return series.forEach(initSeries),axes.forEach(initAxis),then?then instanceof
HTMLElement?(then.appendChild(root2),_init()):then(self,_init):_init(),self}uPlot.assign=assign;uPlot.fmtNum=fmtNum;uPlot.
rangeNum=rangeNum;uPlot.rangeLog=rangeLog;uPlot.rangeAsinh=rangeAsinh;uPlot.orient=orient;uPlot.pxRatio=pxRatio;uPlot.join=
join;uPlot.fmtDate=fmtDate,uPlot.tzDate=tzDate;uPlot.sync=_sync;{uPlot.addGap=addGap,uPlot.clipGaps=clipGaps;let paths2=uPlot.
paths={points};paths2.linear=linear,paths2.stepped=stepped,paths2.bars=bars,paths2.spline=monotoneCubic}var FIGURES=["send","receive","srtt","queueing","retransmitted","cwnd"],STATES={up:["up","it carries what it is given"],
standby:["standby","its role keeps data off it"],silent:["stalled","data is outstanding and nothing gets through"],down:[
"down","it has no TCP connection"],unused:["unused","no connection has it"]},Model=class{t=[];open=[];used=[];conns=[];paths=[];events=[];state="";last="";epoch=0;load(history2,now){
let{last,t:t4,open,used,conns,paths:paths2,events:events2}=history2;Object.assign(this,{last,t:t4,open,used,conns,events:events2});
let had=this.paths;this.paths=[];let colors=paths2.map(({name})=>had.find(path=>path.name===name)?.color);for(let[place,
path]of paths2.entries())this.paths.push({...path,color:colors[place]??freeColor(this.paths,colors)});this.epoch=history2.
clock==="run"?0:now-(t4.at(-1)??0)}isNew(id){let[instance2,number2]=split(id),[before,last]=split(this.last);return instance2===
before&&number2<=last?!1:(this.last=id,!0)}add(sample,id){if(!this.isNew(id))return!1;this.state=sample.state;let rows=this.
t.length,had=new Set(this.paths);for(let[name,state,...figures]of sample.paths){let path=this.pathOf(name,rows);had.delete(
path),path.state.push(state),FIGURES.forEach((figure2,place)=>path[figure2].push(figures[place]??null))}for(let path of had){
path.state.push("unused");for(let figure2 of FIGURES)path[figure2].push(null)}return this.t.push(sample.t),this.open.push(
sample.open),this.used.push(sample.used),this.conns.push(sample.conns),this.t.length>1200&&this.forgetOldest(),!0}addEvent(event,id){
this.isNew(id)&&(this.events.push(event),this.events.length>256&&this.events.shift())}pathOf(name,rows){let known=this.paths.
find(path2=>path2.name===name);if(known)return known;let empty2=()=>new Array(rows).fill(null),path={name,color:freeColor(
this.paths),state:new Array(rows).fill("unused"),send:empty2(),receive:empty2(),srtt:empty2(),queueing:empty2(),retransmitted:empty2(),
cwnd:empty2()},others=this.paths.findIndex(one=>one.name===null);return this.paths.splice(name===null||others<0?this.paths.
length:others,0,path),path}forgetOldest(){for(let column of[this.t,this.open,this.used,this.conns])column.shift();for(let path of this.
paths){path.state.shift();for(let figure2 of FIGURES)path[figure2].shift()}this.paths=this.paths.filter(path=>path.state.
some(state=>state!=="unused"))}};function freeColor(paths2,kept=[]){let taken=new Set([...paths2.map(path=>path.color),...kept]),
color=0;for(;taken.has(color);)color++;return color}function sum(cells){let known=cells.filter(cell=>cell!=null);return known.
length>0?known.reduce((a2,b2)=>a2+b2,0):null}function mean(column,from,to){let cells=column.slice(from,to).filter(cell=>cell!=
null),total=sum(cells);return total==null?null:total/cells.length}function split(id){let dash=id.lastIndexOf("-");return[
id.slice(0,Math.max(0,dash)),Number(id.slice(dash+1))]}var OTHERS="other paths",COLORS=12,DASHES=[[],[7,3],[2,3],[9,3,2,3]];function dashOf(color){return color<0?[]:DASHES[(color+
Math.floor(color/COLORS))%DASHES.length]}function ofPaths(figure2,scale,withSum){return model=>{let scaled=cells=>scale===
1?cells:cells.map(cell=>typeof cell=="number"?cell*scale:cell),lines=model.paths.map(path=>({label:path.name??OTHERS,color:path.
color,values:scaled(path[figure2])}));if(withSum&&lines.length>1){let rows=model.t.map((_3,row)=>sum(lines.map(line=>line.
values[row])));lines.unshift({label:"all paths",color:-1,values:rows})}return lines}}var CONNECTIONS=6,LISTED=4;function moved(id,rows){
let cells=rows.map(row=>{let own=row.find(one=>one[0]===id);return own?own[1]+own[2]:row.length<LISTED?0:null}),listed2=rows.
map(row=>row.some(one=>one[0]===id)),[first,last]=[listed2.indexOf(!0),listed2.lastIndexOf(!0)];return cells.map((cell,row)=>row>=
first-1&&row<=last+1?cell:null)}function ofConnections(model){let sums=new Map;for(let row of model.conns)for(let[id,send,
receive]of row)sums.set(id,(sums.get(id)??0)+send+receive);return[...sums].sort((a2,b2)=>b2[1]-a2[1]||a2[0]-b2[0]).slice(
0,CONNECTIONS).map(([id])=>id).sort((a2,b2)=>a2-b2).map(id=>({label:`#${id}`,color:id%COLORS,values:moved(id,model.conns)}))}
var PATH_CHARTS=[{id:"send",title:"Sending",unit:"Mb/s",show:number,lines:ofPaths("send",1,!0)},{id:"receive",title:"Rec\
eiving",unit:"Mb/s",show:number,lines:ofPaths("receive",1,!0)},{id:"srtt",title:"Round-trip time",unit:"ms, smoothed",show:number,
lines:ofPaths("srtt",1,!1)},{id:"queueing",title:"Queueing delay",unit:"ms above the least round trip",show:number,lines:ofPaths(
"queueing",1,!1)},{id:"retransmitted",title:"Retransmitted",unit:"% of segments",show:number,lines:ofPaths("retransmitte\
d",100,!1)}],CONNECTION_CHARTS=[{id:"conns",title:"Busiest connections",unit:"Mb/s, both directions",show:number,lines:ofConnections},
{id:"count",title:"Connections",unit:"open, and of these in use",show:value=>typeof value=="number"?String(Math.round(value)):
number(value),lines:model=>[{label:"open",color:0,values:model.open},{label:"in use",color:1,values:model.used}]}],CHARTS=[
...PATH_CHARTS,...CONNECTION_CHARTS];function theme(){let style2=getComputedStyle(document.documentElement),of=name=>style2.
getPropertyValue(name).trim(),lines=Array.from({length:COLORS},(_3,place)=>of(`--c${place}`)),levels={good:of("--good"),
warning:of("--warning"),error:of("--error")};return{ink:of("--ink"),soft:of("--soft"),grid:of("--grid"),lines,levels}}var HEIGHT2=150,
Plot=class{constructor(chart,at,move){this.chart=chart;this.at=at;this.move=move;this.resized=new ResizeObserver(()=>this.
resize()),this.resized.observe(at)}chart;at;move;plot;drawn="";span={from:0,to:1};marks=[];resized;width(){return Math.max(
120,Math.floor(this.at.clientWidth))}resize(){let width=this.width();this.plot&&this.plot.width!==width&&this.plot.setSize(
{width,height:HEIGHT2})}draw(model,x2,span,marks,style2){let lines=this.chart.lines(model);this.span=span,this.marks=marks;
let data=[x2,...lines.map(line=>line.values)],looks=JSON.stringify([lines.map(({label,color})=>[label,color]),style2]);if(this.
plot&&looks===this.drawn){this.plot.setData(data);return}this.plot?.destroy(),this.drawn=looks;let plot=new uPlot(this.options(
lines,style2),data,this.at);plot.over.addEventListener("mousemove",()=>this.move(plot.cursor.idx??null)),plot.over.addEventListener(
"mouseleave",()=>this.move(null)),this.plot=plot}point(time2){if(!this.plot)return;let left=time2===null?-10:this.plot.valToPos(
time2,"x");this.plot.setCursor({left,top:time2===null?-10:0},!1)}options(lines,style2){let color=line=>line.color<0?style2.
ink:style2.lines[line.color%style2.lines.length],axis={stroke:style2.soft,grid:{stroke:style2.grid,width:1}},font2="12px\
 system-ui, sans-serif";return{width:this.width(),height:HEIGHT2,legend:{show:!1},padding:[8,6,0,0],cursor:{y:!1,drag:{x:!1,
y:!1},points:{size:6}},scales:{x:{time:!0,range:()=>[this.span.from,this.span.to]},y:{range:(_3,__,most)=>[0,most>0?most*
1.08:1]}},series:[{},...lines.map(line=>({label:line.label,stroke:color(line),width:line.color<0?1:1.75,dash:dashOf(line.
color),points:{show:!1},spanGaps:!1}))],axes:[{...axis,font:font2,space:76,size:28,ticks:{stroke:style2.grid,width:1,size:4},
values:(plot,times)=>{let most=plot.bbox.width/uPlot.pxRatio-26;return times.map(time2=>plot.valToPos(time2,"x")>most?"":
clock(time2))}},{...axis,font:font2,size:46,space:28,ticks:{show:!1},values:(_3,values)=>values.map(value=>String(+value.
toPrecision(6)))}],hooks:{drawAxes:[plot=>this.drawMarks(plot,style2)]}}}drawMarks(plot,style2){let{ctx,bbox}=plot;ctx.save(),
ctx.lineWidth=uPlot.pxRatio;for(let{t:t4,level}of this.marks){if(t4<this.span.from||t4>this.span.to)continue;let x2=Math.
round(plot.valToPos(t4,"x",!0))+.5;ctx.strokeStyle=style2.levels[level]??style2.soft,ctx.setLineDash(level==="good"?[]:[
4*uPlot.pxRatio,3*uPlot.pxRatio]),ctx.beginPath(),ctx.moveTo(x2,bbox.top),ctx.lineTo(x2,bbox.top+bbox.height),ctx.stroke()}
ctx.restore()}};var nameOf=(bond,lane)=>`${bond.client??""}
${lane.name}`,all=status2=>(status2.bonds??[]).flatMap(bond=>bond.lanes.map(lane=>[nameOf(bond,lane),lane,bond.client]));
function laneRates(before,now){let seconds=now.uptime_s-before.uptime_s,found=new Map;if(seconds<=0)return found;let old=new Map(
all(before).map(([name,lane])=>[name,lane]));for(let[name,lane]of all(now)){let then=old.get(name);if(!then||then.sent_bytes>
lane.sent_bytes)continue;let mbps=(after,earlier)=>Math.max(0,after-earlier)*8/seconds/1e6,urgent=mbps(lane.urgent_bytes,
then.urgent_bytes);found.set(name,{urgent,rest:Math.max(0,mbps(lane.sent_bytes,then.sent_bytes)-urgent),receive:mbps(lane.
received_bytes,then.received_bytes)})}return found}var STATES2={up:["up","up"],new:["not heard yet","standby"],silent:["\
silent","silent"]};function hasLanes(status2){return status2!==void 0&&all(status2).length>0}function lanes(status2,now){
let clients=all(status2).some(([,,client])=>client!==null),rows=all(status2).map(([name,lane,client])=>{let[shown,kind]=STATES2[lane.
state]??[lane.state,"unused"],rates2=now.get(name),cell=value=>b`<td>${rate(value)}</td>`;return b`<tr>
<th scope="row">${lane.name}</th>
${clients?b`<td class="word">${client??""}</td>`:""}
<td class="word"><span class="state ${kind}">${shown}</span></td>
${cell(rates2?.urgent)} ${cell(rates2?.rest)} ${cell(rates2?.receive)}
<td>${number(lane.srtt_ms)}</td>
<td>${percent(lane.loss)}</td>
<td>${lane.mtu}</td>
<td>${bytes(lane.sent_bytes)}</td>
<td>${bytes(lane.received_bytes)}</td>
<td>${lane.copied_packets}</td>
<td>${lane.resent_packets}</td>
<td>${lane.lost_packets}</td>
</tr>`});return scrolled("Table of lanes",b`<table>
<caption>Lanes: UDP, ICMP and all that is no TCP</caption>
<thead>
<tr>
<th scope="col">link</th>
${clients?b`<th scope="col" class="word">client</th>`:""}
<th scope="col" class="word">state</th>
<th scope="col">urgent <span class="unit">Mb/s</span></th>
<th scope="col">all else <span class="unit">Mb/s</span></th>
<th scope="col">receiving <span class="unit">Mb/s</span></th>
<th scope="col">round trip <span class="unit">ms</span></th>
<th scope="col">loss <span class="unit">%</span></th>
<th scope="col">longest packet</th>
<th scope="col">sent</th>
<th scope="col">received</th>
<th scope="col">copies</th>
<th scope="col">sent again</th>
<th scope="col">lost</th>
</tr>
</thead>
<tbody>${rows}</tbody>
</table>`)}var t2={ATTRIBUTE:1,CHILD:2,PROPERTY:3,BOOLEAN_ATTRIBUTE:4,EVENT:5,ELEMENT:6},e2=t4=>(...e3)=>({_$litDirective$:t4,values:e3}),
i2=class{constructor(t4){}get _$AU(){return this._$AM._$AU}_$AT(t4,e3,i4){this._$Ct=t4,this._$AM=e3,this._$Ci=i4}_$AS(t4,e3){
return this.update(t4,e3)}update(t4,e3){return this.render(...e3)}};var{I:t3}=j,i3=o2=>o2;var s2=()=>document.createComment(""),v2=(o2,n2,e3)=>{let l2=o2._$AA.parentNode,d2=n2===void 0?o2._$AB:n2._$AA;if(e3===void 0){
let i4=l2.insertBefore(s2(),d2),n3=l2.insertBefore(s2(),d2);e3=new t3(i4,n3,o2,o2.options)}else{let t4=e3._$AB.nextSibling,
n3=e3._$AM,c3=n3!==o2;if(c3){let t5;e3._$AQ?.(o2),e3._$AM=o2,e3._$AP!==void 0&&(t5=o2._$AU)!==n3._$AU&&e3._$AP(t5)}if(t4!==
d2||c3){let o3=e3._$AA;for(;o3!==t4;){let t5=i3(o3).nextSibling;i3(l2).insertBefore(o3,d2),o3=t5}}}return e3},u2=(o2,t4,i4=o2)=>(o2.
_$AI(t4,i4),o2),m2={},p2=(o2,t4=m2)=>o2._$AH=t4,M3=o2=>o2._$AH,h2=o2=>{o2._$AR(),o2._$AA.remove()};var u3=(e3,s3,t4)=>{let r2=new Map;for(let l2=s3;l2<=t4;l2++)r2.set(e3[l2],l2);return r2},c2=e2(class extends i2{constructor(e3){
if(super(e3),e3.type!==t2.CHILD)throw Error("repeat() can only be used in text expressions")}dt(e3,s3,t4){let r2;t4===void 0?
t4=s3:s3!==void 0&&(r2=s3);let l2=[],o2=[],i4=0;for(let s4 of e3)l2[i4]=r2?r2(s4,i4):i4,o2[i4]=t4(s4,i4),i4++;return{values:o2,
keys:l2}}render(e3,s3,t4){return this.dt(e3,s3,t4).values}update(s3,[t4,r2,c3]){let d2=M3(s3),{values:p3,keys:a2}=this.dt(
t4,r2,c3);if(!Array.isArray(d2))return this.ut=a2,p3;let h3=this.ut??=[],v3=[],m3,y2,x2=0,j2=d2.length-1,k2=0,w2=p3.length-
1;for(;x2<=j2&&k2<=w2;)if(d2[x2]===null)x2++;else if(d2[j2]===null)j2--;else if(h3[x2]===a2[k2])v3[k2]=u2(d2[x2],p3[k2]),
x2++,k2++;else if(h3[j2]===a2[w2])v3[w2]=u2(d2[j2],p3[w2]),j2--,w2--;else if(h3[x2]===a2[w2])v3[w2]=u2(d2[x2],p3[w2]),v2(
s3,v3[w2+1],d2[x2]),x2++,w2--;else if(h3[j2]===a2[k2])v3[k2]=u2(d2[j2],p3[k2]),v2(s3,d2[x2],d2[j2]),j2--,k2++;else if(m3===
void 0&&(m3=u3(a2,k2,w2),y2=u3(h3,x2,j2)),m3.has(h3[x2]))if(m3.has(h3[j2])){let e3=y2.get(a2[k2]),t5=e3!==void 0?d2[e3]:
null;if(t5===null){let e4=v2(s3,d2[x2]);u2(e4,p3[k2]),v3[k2]=e4}else v3[k2]=u2(t5,p3[k2]),v2(s3,d2[x2],t5),d2[e3]=null;k2++}else
h2(d2[j2]),j2--;else h2(d2[x2]),x2++;for(;k2<=w2;){let e3=v2(s3,v3[w2+1]);u2(e3,p3[k2]),v3[k2++]=e3}for(;x2<=j2;){let e3=d2[x2++];
e3!==null&&h2(e3)}return this.ut=a2,p2(s3,v3),E}});function swatch(color){let dash=dashOf(color).join(" ");return b`<svg class="swatch line-${color<0?"ink":color%COLORS}" aria-hidden="true" viewBox="0 0 26 8" width="26" height="8">
${w`<path d="M0 4H26" stroke-dasharray=${dash||A}></path>`}
</svg>`}function paths(model,row,when3){if(model.paths.length===0)return b`<p class="empty">No path has carried anything yet.</p>`;
let cells=model.paths.map(path=>{let state=path.state[row]??"unused",[name,meaning]=STATES[state];return b`<tr>
<th scope="row">${swatch(path.color)} ${path.name??OTHERS}</th>
<td class="word"><span class="state ${state}" title=${meaning}>${name}</span></td>
<td>${rate(path.send[row])}</td>
<td>${rate(path.receive[row])}</td>
<td>${number(path.srtt[row])}</td>
<td>${number(path.queueing[row])}</td>
<td>${percent(path.retransmitted[row])}</td>
<td>${bytes(path.cwnd[row])}</td>
</tr>`});if(model.paths.length>1){let all2=figure2=>sum(model.paths.map(path=>path[figure2][row]));cells.unshift(b`<tr class="all">
<th scope="row">${swatch(-1)} all paths</th>
<td></td>
<td>${rate(all2("send"))}</td>
<td>${rate(all2("receive"))}</td>
<td colspan="4"></td>
</tr>`)}return scrolled("Table of paths",b`<table>
<caption>Paths, <span id="when">${when3}</span></caption>
<thead>
<tr>
<th scope="col">path</th>
<th scope="col" class="word">state</th>
<th scope="col">sending <span class="unit">Mb/s</span></th>
<th scope="col">receiving <span class="unit">Mb/s</span></th>
<th scope="col">round trip <span class="unit">ms</span></th>
<th scope="col">queueing <span class="unit">ms</span></th>
<th scope="col">retransmitted <span class="unit">%</span></th>
<th scope="col">cwnd</th>
</tr>
</thead>
<tbody>${cells}</tbody>
</table>`)}var ROWS=30;function behind(chart,model,x2,first){let lines=chart.lines(model),rows=x2.length-first,step=Math.
max(1,Math.ceil(rows/ROWS)),starts=[];for(let to=x2.length;to>first;to-=step)starts.push(Math.max(first,to-step));let row=(from,place)=>{
let to=x2.length-place*step;return b`<tr>
<th scope="row">${clock(x2[to-1])}</th>
${lines.map(line=>b`<td>${chart.show(mean(line.values,from,to))}</td>`)}
</tr>`},each=step===1?"each sample":`means of ${step} samples`;return scrolled(`${chart.title}, as a table`,b`<table>
<caption>${chart.title}, ${chart.unit}; ${each}</caption>
<thead>
<tr>
<th scope="col">until</th>
${lines.map(line=>b`<th scope="col">${line.label}</th>`)}
</tr>
</thead>
<tbody>${starts.map(row)}</tbody>
</table>`)}function rates(before,now){let found=new Map,old=new Map(before.connections.map(one=>[one.number,one]));for(let one of now.
connections){let then=old.get(one.number),seconds=then?one.age_s-then.age_s:0;if(!then||seconds<=0)continue;let mbps=(after,earlier)=>Math.
max(0,after-earlier)*8/seconds/1e6,send=mbps(one.sent_bytes,then.sent_bytes);found.set(one.number,[send,mbps(one.received_bytes,
then.received_bytes)])}return found}function connections(status2,now,opened,toggle){if(status2.connections.length===0)return b`<p class="empty">No connection is open.</p>`;
let row=one=>{let[send,receive]=now.get(one.number)??[null,null],is=opened.has(one.number);return b`<tr>
<th scope="row">
<button class="plain" aria-expanded=${is?"true":"false"} aria-controls="paths-${one.number}" @click=${()=>toggle(one.number)}>
<span aria-hidden="true">${is?"▾":"▸"}</span> #${one.number}
</button>
</th>
<td class="word">${one.label??"kept ready"}</td>
<td class="word">${one.client??"–"}</td>
<td class="word">${one.peer}</td>
<td>${rate(send)}</td>
<td>${rate(receive)}</td>
<td>${bytes(one.sent_bytes)}</td>
<td>${bytes(one.received_bytes)}</td>
<td>${bytes(one.duplicate_bytes)}</td>
<td>${bytes(one.memory_bytes)}</td>
<td class="word">${one.scheduler}</td>
<td>${duration(one.age_s)}</td>
</tr>
<tr id="paths-${one.number}" ?hidden=${!is}>
${is?b`<td colspan="12" class="inner">${pathsOf(one)}</td>`:A}
</tr>`};return scrolled("Table of connections",b`<table>
<caption>Connections: those in use first, then by what they have carried</caption>
<thead>
<tr>
<th scope="col">number</th>
<th scope="col" class="word">used</th>
<th scope="col" class="word">client</th>
<th scope="col" class="word">peer</th>
<th scope="col">sending <span class="unit">Mb/s</span></th>
<th scope="col">receiving <span class="unit">Mb/s</span></th>
<th scope="col">sent</th>
<th scope="col">received</th>
<th scope="col">duplicates</th>
<th scope="col">memory</th>
<th scope="col" class="word">scheduler</th>
<th scope="col">age</th>
</tr>
</thead>
<tbody>${c2(status2.connections,one=>one.number,row)}</tbody>
</table>`)}function pathsOf(one){let window2=one.window_bytes===null?"":`, window ${bytes(one.window_bytes)}`,forward=one.
forward===null?"":`, ${one.forward} sends forward`,count=value=>typeof value=="number"?String(value):"–",row=path=>b`<tr>
<th scope="row">${path.name}</th>
<td class="word">${path.role}</td>
<td class="word"><span class="state ${path.state}">${path.state==="silent"?STATES.silent[0]:path.state}</span></td>
<td class="word">${path.peer??"–"}</td>
<td>${number(path.srtt_ms)}</td>
<td class="word">${path.congestion??"–"}</td>
<td>${bytes(path.cwnd_bytes)}</td>
<td>${bytes(path.delivered_bytes)}</td>
<td>${bytes(path.received_bytes)}</td>
<td>${bytes(path.rescued_bytes)}</td>
<td>${count(path.retransmitted_segments)}</td>
<td>${count(path.lost_subflows)}</td>
</tr>`;return b`<table>
<caption>Paths of #${one.number}${window2}${forward}</caption>
<thead>
<tr>
<th scope="col">path</th>
<th scope="col" class="word">role</th>
<th scope="col" class="word">state</th>
<th scope="col" class="word">peer</th>
<th scope="col">round trip <span class="unit">ms</span></th>
<th scope="col" class="word">control</th>
<th scope="col">cwnd</th>
<th scope="col">sent</th>
<th scope="col">received</th>
<th scope="col">sent again</th>
<th scope="col">retransmitted</th>
<th scope="col">lost</th>
</tr>
</thead>
<tbody>${one.paths.map(row)}</tbody>
</table>`}var WIDTH2=1e3,ROW=22;function runs(states,first){let found=[];for(let row=first;row<states.length;row++){let last=found.
at(-1);last&&last.state===states[row]?last.to=row+1:found.push({state:states[row],from:row,to:row+1})}return found}function patterns(){
return b`<svg class="patterns" width="0" height="0" aria-hidden="true"><defs>
<pattern id="hatch-standby" width="8" height="8" patternUnits="userSpaceOnUse">
<rect class="standby" width="8" height="8"></rect><rect class="stripe" y="3" width="8" height="2"></rect>
</pattern>
<pattern id="hatch-silent" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<rect class="silent" width="8" height="8"></rect><rect class="stripe" width="3" height="8"></rect>
</pattern>
<pattern id="hatch-down" width="8" height="8" patternUnits="userSpaceOnUse">
<rect class="down" width="8" height="8"></rect><path class="cross" d="M0 0L8 8M8 0L0 8"></path>
</pattern>
</defs></svg>`}var HATCHED=["standby","silent","down"];function fill(state){return HATCHED.includes(state)?`url(#hatch-${state}\
)`:A}function strips(model,x2,span){let first=Math.max(0,x2.findIndex(time2=>time2>=span.from)),place=row=>{let share=((row===
0?x2[0]:x2[row-1])-span.from)/(span.to-span.from);return Math.min(1,Math.max(0,share))*WIDTH2},bar=run=>{let from=place(
run.from),width=Math.max(1,place(run.to)-from),title2=`${STATES[run.state][0]} from ${clock(x2[Math.max(0,run.from-1)])}\
 to ${clock(x2[run.to-1])}`;return w`<rect class="bar ${run.state}" fill=${fill(run.state)} x=${from} width=${width} height=${ROW-
4}><title>${title2}</title></rect>`},strip=(name,states)=>{let all2=runs(states,first),now=all2.at(-1),words2=now?`${STATES[now.
state][0]} now; ${all2.length-1} changes in this time`:"";return b`<div class="strip">
<span class="strip-name">${name??OTHERS}</span>
<svg role="img" aria-label="${name??OTHERS}: ${words2}" viewBox="0 0 ${WIDTH2} ${ROW-4}" preserveAspectRatio="none">
${all2.map(bar)}
</svg>
</div>`};return b`${model.paths.map(path=>strip(path.name,path.state))}`}function legend2(){return b`<ul class="legend">
${["up","standby","silent","down"].map(state=>b`<li>
<svg aria-hidden="true" viewBox="0 0 26 14" width="26" height="14"><rect class="bar ${state}" fill=${fill(state)} width="26" height="14"></rect></svg>
${STATES[state][0]}: ${STATES[state][1]}
</li>`)}
</ul>`}var WINDOWS=[[60,"1 min"],[180,"3 min"],[600,"10 min"]];function view2(page2,actions2){return page2.link.is==="refused"?
refused(page2.link.reason):b`${patterns()}
<header>${heading(page2)} ${link(page2,actions2)}</header>
${page2.notice?b`<p class="notice" role="alert">${page2.notice} <button type="button" @click=${actions2.dismiss}>Close</button></p>`:
A}
<main>
${tiles(page2)}
<section aria-labelledby="paths-heading">
<div class="bar-of-controls">
<h2 id="paths-heading">Paths</h2>
${controls(page2,actions2)}
</div>
${paths(page2.model,shownRow(page2),when2(page2))} ${timeline(page2,actions2)}
<div class="charts">
${PATH_CHARTS.map(chart=>figure(chart,page2,actions2))}
<figure class="states">
<figcaption>State</figcaption>
${strips(page2.model,page2.x,page2.span)} ${legend2()}
</figure>
</div>
</section>
<section aria-labelledby="lanes-heading" ?hidden=${!hasLanes(page2.status)}>
<h2 id="lanes-heading">Lanes</h2>
<p class="empty">${asOf(page2)}</p>
${page2.status?lanes(page2.status,page2.laneRates):A}
</section>
<section aria-labelledby="connections-heading" ?hidden=${!hasConnections(page2)}>
<h2 id="connections-heading">Connections</h2>
<div class="charts">${CONNECTION_CHARTS.map(chart=>figure(chart,page2,actions2))}</div>
<p class="empty">${asOf(page2)}</p>
${page2.status?b`${connections(page2.status,page2.rates,page2.opened,actions2.connection)} ${listed(page2,actions2)}`:b`<p class="empty">They are being asked for.</p>`}
</section>
${weave(page2,actions2)} ${events(page2,actions2)}
</main>
<footer>
<p>
Rates are means over the time from point to point. Retransmitted counts segments of 1,448 bytes. Lines across
the charts are events. <a href="/a/licenses.txt">Licences</a>
</p>
</footer>`}function refused(reason){return b`<main class="refused">
<h1>Weftline</h1>
<p role="alert">${reason}</p>
</main>`}function asOf({statusAge}){return statusAge===null?"":`as of ${duration(statusAge)} ago`}function hasConnections({
status:status2}){return!status2?.daemon.startsWith("cotag")}function shownRow({row,model}){return row??model.t.length-1}
function when2(page2){return page2.row===null?"now":`at ${clock(page2.x[page2.row])}`}function heading(page2){let{status:status2,
model}=page2,state=model.state||status2?.state||"",facts=status2?[`version ${status2.version}`,`process ${status2.pid}`,
`up for ${duration(status2.uptime_s)}`,status2.listening.length>0?`listening on ${status2.listening.join(", ")}`:"",asOf(
page2)]:[];return b`<div>
<h1>
Weftline ${status2?b`<code>${status2.daemon}</code>`:A}
${state?b`<span class="badge ${state}">${state}</span>`:A}
</h1>
<p class="facts">${facts.filter(Boolean).join(" · ")}</p>
</div>`}function link({link:link2,paused},{retry}){let words2={connecting:"connecting…",live:paused?"paused: nothing o\
n the page moves":"live",hidden:"not followed while hidden",waiting:"",refused:""},reason=link2.is==="waiting"?link2.reason:
"";return b`<div class="link ${link2.is}">
<p role="status">
${reason?`No connection: ${reason}. Trying again by itself.`:words2[link2.is]}
</p>
${link2.is==="waiting"?b`<button type="button" @click=${retry}>Try now</button>`:A}
</div>`}function tiles(page2){let{model,status:status2}=page2,row=model.t.length-1,own=model.paths.filter(path=>path.name!==
null&&(path.state[row]??"unused")!=="unused"),up=own.filter(path=>path.state[row]==="up").length,hasOthers=model.paths.some(
path=>path.name===null&&(path.state[row]??"unused")!=="unused"),all2=figure2=>number(sum(model.paths.map(path=>path[figure2][row]))??
0),tile=(name,value,more="")=>b`<div class="tile"><dt>${name}</dt><dd>${value} <span class="unit">${more}</span></dd></div>`,
memory=status2?.memory,old=asOf(page2)&&`, ${asOf(page2)}`;return b`<dl class="tiles">
${tile("Sending",all2("send"),"Mb/s")} ${tile("Receiving",all2("receive"),"Mb/s")}
${tile("Paths up",up,`of ${own.length}${hasOthers?", and others":""}`)}
${tile("Connections in use",model.used[row]??0,`of ${model.open[row]??0} open`)}
${memory?tile("Memory",bytes(memory.resident_bytes),`${bytes(memory.reserved_bytes)} reserved${old}`):A}
${status2?tile("Since the start",status2.connections_opened,`connections, ${status2.connections_failed} failed, ${status2.
handshakes_refused} handshakes refused${old}`):A}
</dl>`}function controls(page2,{show,pause}){return b`<div class="controls">
<fieldset>
<legend class="unseen">Time shown</legend>
${WINDOWS.map(([seconds,name])=>b`<label>
<input type="radio" name="window" .checked=${page2.window===seconds} @change=${()=>show(seconds)} />
<span>${name}</span>
</label>`)}
</fieldset>
<button type="button" id="pause" aria-pressed=${page2.paused?"true":"false"} @click=${pause}>Pause</button>
</div>`}function timeline(page2,{point:point2}){let rows=page2.x.length;if(rows===0)return b``;let first=Math.max(0,page2.
x.findIndex(time2=>time2>=page2.span.from)),move=event=>{let row=Number(event.target.value);point2(row>=rows-1?null:row)};
return b`<div class="timeline">
<label for="cursor">Moment</label>
<input
id="cursor"
type="range"
min=${first}
max=${rows-1}
.value=${String(shownRow(page2))}
aria-valuetext=${when2(page2)}
@input=${move}
/>
<output for="cursor">${when2(page2)}</output>
</div>`}function figure(chart,page2,{table:table2}){let row=shownRow(page2),lines=chart.lines(page2.model),words2=lines.
map(line=>`${line.label} ${chart.show(line.values[row])}`).join(", "),open=page2.tables.has(chart.id),first=Math.max(0,page2.
x.findIndex(time2=>time2>=page2.span.from));return b`<figure>
<figcaption>${chart.title} <span class="unit">${chart.unit}</span></figcaption>
<div class="plot" id="plot-${chart.id}" role="img" aria-label="${chart.title}, ${chart.unit}, ${when2(page2)}: ${words2||
"nothing yet"}"></div>
${chart.id==="conns"||chart.id==="count"?keys(lines):A}
<details @toggle=${event=>table2(chart.id,event.target.open)}>
<summary>Table<span class="unseen"> of ${chart.title}</span></summary>
${open?behind(chart,page2.model,page2.x,first):A}
</details>
</figure>`}function keys(lines){return b`<ul class="legend">
${lines.map(line=>b`<li>${swatch(line.color)} ${line.label}</li>`)}
</ul>`}function listed({status:status2,listsMore},{list}){let more=status2?.connections_unlisted??0;if(more===0&&!listsMore)
return A;let words2=listsMore?"List the busiest only":"List all (up to 1,000)";return b`<p class="empty">
${more>0?b`and ${more} more`:A}
<button type="button" name="list" @click=${()=>list(!listsMore)}>${words2}</button>
</p>`}function weave(page2,{watch,weave:weave2}){let{weave:watched,status:status2}=page2,known=(status2?.connections??[]).
map(one=>[one.number,`#${one.number} ${one.label??"kept ready"}`]).sort(([one],[other])=>one-other);watched?.connection!=
null&&!known.some(([number2])=>number2===watched.connection)&&known.unshift([watched.connection,`#${watched.connection} ${watched.
over?"(over)":""}`]);let choose2=event=>{let{value}=event.target;watch(value===""?null:Number(value))};return b`<section aria-labelledby="weave-heading" ?hidden=${!hasConnections(
page2)}>
<div class="bar-of-controls">
<h2 id="weave-heading">Weave</h2>
<label class="check">
of connection
<select id="weave-of" @change=${choose2}>
<option value="" .selected=${watched===null}>none: nothing is recorded</option>
${known.map(([number2,text])=>b`<option value=${number2} .selected=${watched?.connection===number2}>${text}</option>`)}
</select>
</label>
</div>
${watched?b`${watched.over?b`<p class="empty" role="status">Nothing more comes of it: the connection is over, or it has no weave.</p>`:
A}
${view(watched,page2.weaveShown,weave2,!1)}`:b`<p class="empty">Choose a connection to see which path carries which part of its stream. The daemon records it for as long as it is watched.</p>`}
</section>`}function events(page2,{problems}){let isShown=event=>!page2.problemsOnly||event.level==="error"||event.level===
"warning",shown=page2.model.events.filter(isShown).slice(-100).reverse(),names={info:"",good:"good: ",warning:"warning: ",
error:"error: "},time2=event=>b`<time>${clock(page2.model.epoch+event.t)}</time>`,item=event=>b`<li class=${event.level}>
${time2(event)}
<span><span class="unseen">${names[event.level]??""}</span>${event.text}</span>
</li>`;return b`<section aria-labelledby="events-heading">
<div class="bar-of-controls">
<h2 id="events-heading">Events</h2>
<label class="check">
<input type="checkbox" .checked=${page2.problemsOnly} @change=${event=>problems(event.target.checked)} />
only what goes wrong
</label>
</div>
<div class="log" role="log" aria-labelledby="events-heading" tabindex="0">
${shown.length===0?b`<p class="empty">Nothing has happened${page2.problemsOnly?" that is wrong":""}.</p>`:b`<ol reversed>
${c2(shown,event=>event,item)}
</ol>`}
</div>
</section>`}var LISTED2=50,LISTED_MOST=1e3,ASKING=2e3,CALM=5e3,MARKED=["path_down","path_silent","path_stalled","path_recovered","pa\
th_up"],MAX_HELD=2*1200,root=document.getElementById("app"),calm=matchMedia("(prefers-reduced-motion: reduce)"),page={model:new Model,
status:void 0,statusAge:null,rates:new Map,laneRates:new Map,link:{is:"connecting"},notice:"",x:[],span:{from:0,to:1},window:WINDOWS[1][0],
paused:!1,row:null,tables:new Set,opened:new Set,listsMore:!1,problemsOnly:!1,weave:null,weaveShown:shownAtFirst()},plots=[],
style=theme(),lastDrawn=0,wanted=!1,charts=!0;function draw(byUser=!1,withCharts=!0){!byUser&&page.paused||(charts||=withCharts,
!(!byUser&&calm.matches&&performance.now()-lastDrawn<CALM)&&(wanted||(wanted=!0,requestAnimationFrame(()=>{wanted=!1,paint2()}))))}
function paint2(){let{model}=page;lastDrawn=performance.now(),page.x=model.t.map(t4=>model.epoch+t4);let to=page.x.at(-1)??
(model.epoch===0?0:Date.now()/1e3),from=to-page.window;if(page.span=model.epoch===0?{from:Math.max(0,from),to:Math.max(1,
to)}:{from,to},page.row!==null&&page.row>=page.x.length&&(page.row=null),page.statusAge=page.paused||page.link.is!=="liv\
e"?null:asking.age(lastDrawn),D(view2(page,actions),root),document.title=title(),page.link.is==="refused"){plots=[];return}
if(page.weave){let places=placesOf(page.weave.names,model.paths,COLORS);paint(page.weave,page.weaveShown,palette(path=>places.
get(path)??path),!1)}if(!charts&&plots.length>0)return;charts=!1,plots.length===0&&(plots=CHARTS.map(plotOf));let marks=model.
events.filter(event=>MARKED.includes(event.name)&&event.level!=="info").map(event=>({t:model.epoch+event.t,level:event.level}));
for(let plot of plots)plot.draw(model,page.x,page.span,marks,style);let time2=page.row===null?null:page.x[page.row];queueMicrotask(
()=>plots.forEach(plot=>plot.point(time2)))}function plotOf(chart){let at=document.getElementById(`plot-${chart.id}`);return new Plot(
chart,at,row=>{page.row!==row&&(page.row=row,draw(!0))})}function title(){let{model,status:known,link:link2}=page,row=model.
t.length-1;return link2.is!=="live"||row<0?"Weftline":`${model.paths.some(path=>["silent","down"].includes(path.state[row]))?
"⚠ ":""}Weftline ${known?.daemon??""}`.trim()}var actions={show(window2){page.window=window2,page.row=null,draw(!0)},pause(){
page.paused=!page.paused,page.paused||resume(),draw(!0)},retry(){stream.now()},dismiss(){page.notice="",draw(!0)},point(row){
page.row=row,draw(!0)},table(id,open){open!==page.tables.has(id)&&(open?page.tables.add(id):page.tables.delete(id),draw(
!0))},connection(id){page.opened.delete(id)||page.opened.add(id),draw(!0)},list(more){page.listsMore=more,askStatus(),draw(
!0)},problems(only){page.problemsOnly=only,draw(!0)},watch(connection){page.weave=connection===null?null:new Weave(connection),
page.weaveShown={...page.weaveShown,direction:null,row:null},stream.again(),draw(!0)},weave(what){Object.assign(page.weaveShown,
what),draw(!0,!1)}},held=[];function take(what,withCharts=!0){page.paused?held&&held.push(what)>MAX_HELD&&(held=void 0):
(what(),draw(!1,withCharts))}function resume(){if(held)for(let what of held)what();else page.model.last="",stream.again();
held=[],askStatus()}var instance="",stream=new Stream({last:()=>page.model.last,instance(name){page.weave&&instance!==""&&
instance!==name&&(page.weave=new Weave(page.weave.connection)),instance=name},load(history2){let now=Date.now()/1e3;take(
()=>{page.model.load(history2,now),page.row=null})},sample(sample,id){take(()=>{let isFull=page.model.t.length===1200;page.
model.add(sample,id)&&isFull&&page.row!==null&&(page.row=Math.max(0,page.row-1))})},event(event,id){take(()=>page.model.
addEvent(event,id))},watched(){return page.weave&&!page.weave.over?page.weave.connection:null},weave(message){let{weave:weave2}=page;
!weave2||message.connection!==weave2.connection||take(()=>weave2.take(message),!1)},link(link2){page.link=link2,draw(!0),
askStatus()}}),asking=new Asking({ask:()=>status(page.listsMore?LISTED_MOST:LISTED2),answered(now){page.status&&page.status.
pid===now.pid&&(page.rates=rates(page.status,now),page.laneRates=laneRates(page.status,now)),page.status=now;let open=new Set(
now.connections.map(one=>one.number));for(let id of page.opened)open.has(id)||page.opened.delete(id);draw()},refused:reason=>stream.
refuse(reason)});function askStatus(){page.link.is==="live"&&!page.paused&&asking.look(performance.now())}window.addEventListener(
"resize",()=>page.weave&&draw(!0));matchMedia("(prefers-color-scheme: dark)").addEventListener("change",()=>{style=theme(),
draw(!0)});setInterval(askStatus,ASKING);async function start(){try{page.notice=await begin2()}catch(error){page.link={is:"\
refused",reason:error instanceof Error?error.message:String(error)},draw(!0);return}stream.follow(),draw(!0)}root.replaceChildren();
draw(!0);start();window.addEventListener("hashchange",()=>{start()});
