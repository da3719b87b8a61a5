// Built by scripts/web; licences of what is built in: /a/licenses.txt
var t=globalThis,i=t2=>t2,s=t.trustedTypes,e=s?s.createPolicy("lit-html",{createHTML:t2=>t2}):void 0,h="$lit$",o=`lit$${Math.
random().toFixed(9).slice(2)}$`,n="?"+o,r=`<${n}>`,l=document,c=()=>l.createComment(""),a=t2=>t2===null||typeof t2!="obj\
ect"&&typeof t2!="function",u=Array.isArray,d=t2=>u(t2)||typeof t2?.[Symbol.iterator]=="function",f=`[ 	
\f\r]`,v=/<(?:(!--|\/[^a-zA-Z])|(\/?[a-zA-Z][^>\s]*)|(\/?$))/g,_=/-->/g,m=/>/g,p=RegExp(`>|${f}(?:([^\\s"'>=/]+)(${f}*=${f}\
*(?:[^ 	
\f\r"'\`<>=]|("|')|))|$)`,"g"),g=/'/g,$=/"/g,y=/^(?:script|style|textarea|title)$/i,x=t2=>(i2,...s2)=>({_$litType$:t2,strings:i2,
values:s2}),b=x(1),w=x(2),T=x(3),E=Symbol.for("lit-noChange"),A=Symbol.for("lit-nothing"),C=new WeakMap,P=l.createTreeWalker(
l,129);function V(t2,i2){if(!u(t2)||!t2.hasOwnProperty("raw"))throw Error("invalid template strings array");return e!==void 0?
e.createHTML(i2):i2}var N=(t2,i2)=>{let s2=t2.length-1,e2=[],n2,l2=i2===2?"<svg>":i2===3?"<math>":"",c2=v;for(let i3=0;i3<
s2;i3++){let s3=t2[i3],a2,u2,d2=-1,f2=0;for(;f2<s3.length&&(c2.lastIndex=f2,u2=c2.exec(s3),u2!==null);)f2=c2.lastIndex,c2===
v?u2[1]==="!--"?c2=_:u2[1]!==void 0?c2=m:u2[2]!==void 0?(y.test(u2[2])&&(n2=RegExp("</"+u2[2],"g")),c2=p):u2[3]!==void 0&&
(c2=p):c2===p?u2[0]===">"?(c2=n2??v,d2=-1):u2[1]===void 0?d2=-2:(d2=c2.lastIndex-u2[2].length,a2=u2[1],c2=u2[3]===void 0?
p:u2[3]==='"'?$:g):c2===$||c2===g?c2=p:c2===_||c2===m?c2=v:(c2=p,n2=void 0);let x2=c2===p&&t2[i3+1].startsWith("/>")?" ":
"";l2+=c2===v?s3+r:d2>=0?(e2.push(a2),s3.slice(0,d2)+h+s3.slice(d2)+o+x2):s3+o+(d2===-2?i3:x2)}return[V(t2,l2+(t2[s2]||"\
<?>")+(i2===2?"</svg>":i2===3?"</math>":"")),e2]},S=class _S{constructor({strings:t2,_$litType$:i2},e2){let r2;this.parts=
[];let l2=0,a2=0,u2=t2.length-1,d2=this.parts,[f2,v2]=N(t2,i2);if(this.el=_S.createElement(f2,e2),P.currentNode=this.el.
content,i2===2||i2===3){let t3=this.el.content.firstChild;t3.replaceWith(...t3.childNodes)}for(;(r2=P.nextNode())!==null&&
d2.length<u2;){if(r2.nodeType===1){if(r2.hasAttributes())for(let t3 of r2.getAttributeNames())if(t3.endsWith(h)){let i3=v2[a2++],
s2=r2.getAttribute(t3).split(o),e3=/([.?@])?(.*)/.exec(i3);d2.push({type:1,index:l2,name:e3[2],strings:s2,ctor:e3[1]==="\
."?I:e3[1]==="?"?L:e3[1]==="@"?z:H}),r2.removeAttribute(t3)}else t3.startsWith(o)&&(d2.push({type:6,index:l2}),r2.removeAttribute(
t3));if(y.test(r2.tagName)){let t3=r2.textContent.split(o),i3=t3.length-1;if(i3>0){r2.textContent=s?s.emptyScript:"";for(let s2=0;s2<
i3;s2++)r2.append(t3[s2],c()),P.nextNode(),d2.push({type:2,index:++l2});r2.append(t3[i3],c())}}}else if(r2.nodeType===8)
if(r2.data===n)d2.push({type:2,index:l2});else{let t3=-1;for(;(t3=r2.data.indexOf(o,t3+1))!==-1;)d2.push({type:7,index:l2}),
t3+=o.length-1}l2++}}static createElement(t2,i2){let s2=l.createElement("template");return s2.innerHTML=t2,s2}};function M(t2,i2,s2=t2,e2){
if(i2===E)return i2;let h2=e2!==void 0?s2._$Co?.[e2]:s2._$Cl,o2=a(i2)?void 0:i2._$litDirective$;return h2?.constructor!==
o2&&(h2?._$AO?.(!1),o2===void 0?h2=void 0:(h2=new o2(t2),h2._$AT(t2,s2,e2)),e2!==void 0?(s2._$Co??=[])[e2]=h2:s2._$Cl=h2),
h2!==void 0&&(i2=M(t2,h2._$AS(t2,i2.values),h2,e2)),i2}var R=class{constructor(t2,i2){this._$AV=[],this._$AN=void 0,this.
_$AD=t2,this._$AM=i2}get parentNode(){return this._$AM.parentNode}get _$AU(){return this._$AM._$AU}u(t2){let{el:{content:i2},
parts:s2}=this._$AD,e2=(t2?.creationScope??l).importNode(i2,!0);P.currentNode=e2;let h2=P.nextNode(),o2=0,n2=0,r2=s2[0];
for(;r2!==void 0;){if(o2===r2.index){let i3;r2.type===2?i3=new k(h2,h2.nextSibling,this,t2):r2.type===1?i3=new r2.ctor(h2,
r2.name,r2.strings,this,t2):r2.type===6&&(i3=new Z(h2,this,t2)),this._$AV.push(i3),r2=s2[++n2]}o2!==r2?.index&&(h2=P.nextNode(),
o2++)}return P.currentNode=l,e2}p(t2){let i2=0;for(let s2 of this._$AV)s2!==void 0&&(s2.strings!==void 0?(s2._$AI(t2,s2,
i2),i2+=s2.strings.length-2):s2._$AI(t2[i2])),i2++}},k=class _k{get _$AU(){return this._$AM?._$AU??this._$Cv}constructor(t2,i2,s2,e2){
this.type=2,this._$AH=A,this._$AN=void 0,this._$AA=t2,this._$AB=i2,this._$AM=s2,this.options=e2,this._$Cv=e2?.isConnected??
!0}get parentNode(){let t2=this._$AA.parentNode,i2=this._$AM;return i2!==void 0&&t2?.nodeType===11&&(t2=i2.parentNode),t2}get startNode(){
return this._$AA}get endNode(){return this._$AB}_$AI(t2,i2=this){t2=M(this,t2,i2),a(t2)?t2===A||t2==null||t2===""?(this.
_$AH!==A&&this._$AR(),this._$AH=A):t2!==this._$AH&&t2!==E&&this._(t2):t2._$litType$!==void 0?this.$(t2):t2.nodeType!==void 0?
this.T(t2):d(t2)?this.k(t2):this._(t2)}O(t2){return this._$AA.parentNode.insertBefore(t2,this._$AB)}T(t2){this._$AH!==t2&&
(this._$AR(),this._$AH=this.O(t2))}_(t2){this._$AH!==A&&a(this._$AH)?this._$AA.nextSibling.data=t2:this.T(l.createTextNode(
t2)),this._$AH=t2}$(t2){let{values:i2,_$litType$:s2}=t2,e2=typeof s2=="number"?this._$AC(t2):(s2.el===void 0&&(s2.el=S.createElement(
V(s2.h,s2.h[0]),this.options)),s2);if(this._$AH?._$AD===e2)this._$AH.p(i2);else{let t3=new R(e2,this),s3=t3.u(this.options);
t3.p(i2),this.T(s3),this._$AH=t3}}_$AC(t2){let i2=C.get(t2.strings);return i2===void 0&&C.set(t2.strings,i2=new S(t2)),i2}k(t2){
u(this._$AH)||(this._$AH=[],this._$AR());let i2=this._$AH,s2,e2=0;for(let h2 of t2)e2===i2.length?i2.push(s2=new _k(this.
O(c()),this.O(c()),this,this.options)):s2=i2[e2],s2._$AI(h2),e2++;e2<i2.length&&(this._$AR(s2&&s2._$AB.nextSibling,e2),i2.
length=e2)}_$AR(t2=this._$AA.nextSibling,s2){for(this._$AP?.(!1,!0,s2);t2!==this._$AB;){let s3=i(t2).nextSibling;i(t2).remove(),
t2=s3}}setConnected(t2){this._$AM===void 0&&(this._$Cv=t2,this._$AP?.(t2))}},H=class{get tagName(){return this.element.tagName}get _$AU(){
return this._$AM._$AU}constructor(t2,i2,s2,e2,h2){this.type=1,this._$AH=A,this._$AN=void 0,this.element=t2,this.name=i2,
this._$AM=e2,this.options=h2,s2.length>2||s2[0]!==""||s2[1]!==""?(this._$AH=Array(s2.length-1).fill(new String),this.strings=
s2):this._$AH=A}_$AI(t2,i2=this,s2,e2){let h2=this.strings,o2=!1;if(h2===void 0)t2=M(this,t2,i2,0),o2=!a(t2)||t2!==this.
_$AH&&t2!==E,o2&&(this._$AH=t2);else{let e3=t2,n2,r2;for(t2=h2[0],n2=0;n2<h2.length-1;n2++)r2=M(this,e3[s2+n2],i2,n2),r2===
E&&(r2=this._$AH[n2]),o2||=!a(r2)||r2!==this._$AH[n2],r2===A?t2=A:t2!==A&&(t2+=(r2??"")+h2[n2+1]),this._$AH[n2]=r2}o2&&!e2&&
this.j(t2)}j(t2){t2===A?this.element.removeAttribute(this.name):this.element.setAttribute(this.name,t2??"")}},I=class extends H{constructor(){
super(...arguments),this.type=3}j(t2){this.element[this.name]=t2===A?void 0:t2}},L=class extends H{constructor(){super(...arguments),
this.type=4}j(t2){this.element.toggleAttribute(this.name,!!t2&&t2!==A)}},z=class extends H{constructor(t2,i2,s2,e2,h2){super(
t2,i2,s2,e2,h2),this.type=5}_$AI(t2,i2=this){if((t2=M(this,t2,i2,0)??A)===E)return;let s2=this._$AH,e2=t2===A&&s2!==A||t2.
capture!==s2.capture||t2.once!==s2.once||t2.passive!==s2.passive,h2=t2!==A&&(s2===A||e2);e2&&this.element.removeEventListener(
this.name,this,s2),h2&&this.element.addEventListener(this.name,this,t2),this._$AH=t2}handleEvent(t2){typeof this._$AH=="\
function"?this._$AH.call(this.options?.host??this.element,t2):this._$AH.handleEvent(t2)}},Z=class{constructor(t2,i2,s2){
this.element=t2,this.type=6,this._$AN=void 0,this._$AM=i2,this.options=s2}get _$AU(){return this._$AM._$AU}_$AI(t2){M(this,
t2)}};var B=t.litHtmlPolyfillSupport;B?.(S,k),(t.litHtmlVersions??=[]).push("3.3.3");var D=(t2,i2,s2)=>{let e2=s2?.renderBefore??
i2,h2=e2._$litPart$;if(h2===void 0){let t3=s2?.renderBefore??null;e2._$litPart$=h2=new k(i2.insertBefore(c(),t3),t3,void 0,
s2??{})}return h2._$AI(t2),h2};var Refused=class extends Error{constructor(status,reason){super(reason);this.status=status}status},WAITS=[500,1e3,2e3,5e3];var PATIENCE=1e4;async function ask(path,options={}){let answer=await fetch(path,{cache:"no-store",credentials:"same-ori\
gin",...options});if(answer.ok)return answer;let said=await answer.text(),reason=said.trim();try{reason=JSON.parse(said).
error}catch{}throw new Refused(answer.status,reason||`HTTP ${answer.status}`)}async function tried(attempt){for(let wait of WAITS)try{return await attempt()}catch(error){if(error instanceof Refused)
throw error;await new Promise(done=>setTimeout(done,wait))}return attempt()}async function begin(){let token=new URLSearchParams(
location.hash.slice(1)).get("k");if(!token)return"";history.replaceState(null,"",location.pathname);let body=JSON.stringify(
{token}),session=options=>tried(()=>ask("/api/1/session",{...options,signal:AbortSignal.timeout(PATIENCE)}));try{return await(await session(
{method:"POST",body})).text(),""}catch(error){if(!(error instanceof Refused&&error.status===403&&error.message.includes(
"token"))||await session({}).then(()=>!1,why=>why instanceof Refused))throw error;return`The address that was opened las\
t is of another start: ${error.message}. This page goes on.`}}var now=()=>performance.timeOrigin+performance.now();function planes(width,height){let[luma,chroma]=[width*height,width*height/4],cb=luma+width,cr=cb+chroma+width/2;return{width,
height,cb,cr,bytes:cr+chroma+width/2}}var VERTICES=`#version 300 es
void main() {
vec2 at = vec2((gl_VertexID << 1) & 2, gl_VertexID & 2);
gl_Position = vec4(at * 2.0 - 1.0, 0.0, 1.0);
}`,PIXELS=`#version 300 es
precision highp float;
uniform sampler2D luma, cb, cr, states;
uniform mat3 head, matrix;
uniform vec3 offset;
uniform vec4 port;
uniform vec2 halves, centre;
uniform float marks, grey;
out vec4 colour;
const float PI = 3.14159265358979;
void main() {
vec2 at = ((gl_FragCoord.xy - port.xy) / port.zw * 2.0 - 1.0 + centre) * halves;
vec3 ray = normalize(head * vec3(1.0, -at.x, at.y));
// Straight behind it is zero, and what some machines make of that is ahead.
float side = ray.y == 0.0 ? 1e-7 : -ray.y;
vec2 place = vec2(atan(side, ray.x) / (2.0 * PI) + 0.5, 0.5 - asin(clamp(ray.z, -1.0, 1.0)) / PI);
vec3 coded = vec3(texture(luma, place).r, texture(cb, place).r, texture(cr, place).r);
vec3 seen = grey > 0.0 ? coded.rrr : clamp(matrix * (coded - offset), 0.0, 1.0);
if (marks > 0.0) {
ivec2 tiles = textureSize(states, 0);
vec2 within = place * vec2(tiles);
vec4 state = texelFetch(states, min(ivec2(within), tiles - 1), 0);
// What is late has stripes besides its colour.
float stripe = step(0.5, fract((within.x + within.y) * 8.0));
float share = state.a * (state.b > 0.9 ? 0.35 + 0.4 * stripe : 1.0);
// From green over yellow to magenta.
vec3 rank = vec3(min(vec2(1.0), 2.0 * state.rg), max(0.0, 1.6 * state.r - 0.8));
seen = mix(seen, state.b > 0.9 ? vec3(0.75, 0.1, 0.1) : rank, share);
// Lines of one pixel or two between tiles.
vec2 near = abs(fract(within + 0.5) - 0.5) / max(fwidth(within), vec2(1e-6));
if (min(near.x, near.y) < 0.8) seen = mix(seen, vec3(1.0), 0.6);
}
colour = vec4(seen, 1.0);
}`,Screen=class{gl;uniforms={};textures=[];manifest=null;planes=planes(2,2);grey=[];colour={matrix:"bt709",full:!1};states=[];lost=!1;constructor(canvas2){
let gl=canvas2.getContext("webgl2",{antialias:!1,alpha:!1});if(!gl)throw new Error("WebGL 2 is not to be had");this.gl=gl,
this.prepare(),canvas2.addEventListener("webglcontextlost",event=>{event.preventDefault(),this.lost=!0}),canvas2.addEventListener(
"webglcontextrestored",()=>{this.lost=!1,this.prepare(),this.manifest&&this.start(this.manifest),this.mark(this.states)})}prepare(){
let{gl}=this,program=gl.createProgram();for(let[kind,text]of[[gl.VERTEX_SHADER,VERTICES],[gl.FRAGMENT_SHADER,PIXELS]]){let shader=gl.
createShader(kind);shader&&(gl.shaderSource(shader,text),gl.compileShader(shader),gl.attachShader(program,shader))}if(gl.
linkProgram(program),!gl.isContextLost()&&!gl.getProgramParameter(program,gl.LINK_STATUS))throw new Error(`the shader: ${gl.
getProgramInfoLog(program)}`);gl.useProgram(program);for(let[unit,name]of["luma","cb","cr","states"].entries())gl.uniform1i(
gl.getUniformLocation(program,name),unit);for(let name of["head","matrix","offset","port","halves","centre","marks","gre\
y"])this.uniforms[name]=gl.getUniformLocation(program,name);gl.pixelStorei(gl.UNPACK_ALIGNMENT,1),this.textures=[],this.
paintColours()}start(manifest){let{gl}=this,{width,height,columns,rows:rows2}=manifest;if(this.manifest=manifest,this.lost||
gl.isContextLost())return;let most=gl.getParameter(gl.MAX_TEXTURE_SIZE);if(Math.max(width,height)>most)throw this.manifest=
null,new Error(`pictures of ${width}x${height} are larger than this machine can draw (${most}x${most})`);this.planes=planes(
width,height);for(let texture of this.textures)gl.deleteTexture(texture);let sizes=[[width,height],[width/2,height/2],[width/
2,height/2],[columns,rows2]];this.textures=sizes.map(([wide,high],unit)=>{let texture=gl.createTexture();gl.activeTexture(
gl.TEXTURE0+unit),gl.bindTexture(gl.TEXTURE_2D,texture);let states=unit===3;gl.texStorage2D(gl.TEXTURE_2D,1,states?gl.RGBA8:
gl.R8,wide,high);let filter=states?gl.NEAREST:gl.LINEAR;return gl.texParameteri(gl.TEXTURE_2D,gl.TEXTURE_MIN_FILTER,filter),
gl.texParameteri(gl.TEXTURE_2D,gl.TEXTURE_MAG_FILTER,filter),gl.texParameteri(gl.TEXTURE_2D,gl.TEXTURE_WRAP_S,states?gl.
CLAMP_TO_EDGE:gl.REPEAT),gl.texParameteri(gl.TEXTURE_2D,gl.TEXTURE_WRAP_T,gl.CLAMP_TO_EDGE),texture}),this.grey=new Array(
columns*rows2).fill(!1);for(let tile=0;tile<columns*rows2;tile++)this.paintGrey(tile)}rect(tile){let{width,height,columns,
rows:rows2}=this.manifest,[wide,high]=[width/columns,height/rows2];return[tile%columns*wide,Math.floor(tile/columns)*high,
wide,high]}upload({buffer,tiles}){if(!this.manifest||this.lost)return;let{gl}=this,{width,height}=this.planes;if(buffer.
byteLength>0&&tiles.every(state=>state===1)){this.put(buffer,0,0,width,height),this.grey.fill(!1);return}for(let[tile,state]of tiles.
entries())state===2&&!this.grey[tile]&&this.paintGrey(tile),state===1&&(this.put(buffer,...this.rect(tile)),this.grey[tile]=
!1);gl.pixelStorei(gl.UNPACK_ROW_LENGTH,0)}put(buffer,left,top,wide,high){let{gl}=this,{width,cb,cr}=this.planes;for(let[
unit,start2]of[0,cb,cr].entries()){let by=unit===0?1:2,stride=width/by;gl.activeTexture(gl.TEXTURE0+unit),gl.pixelStorei(
gl.UNPACK_ROW_LENGTH,stride);let from=new Uint8Array(buffer,start2+top/by*stride+left/by);gl.texSubImage2D(gl.TEXTURE_2D,
0,left/by,top/by,wide/by,high/by,gl.RED,gl.UNSIGNED_BYTE,from)}gl.pixelStorei(gl.UNPACK_ROW_LENGTH,0)}paintGrey(tile){let{
gl}=this,[left,top,wide,high]=this.rect(tile),grey=new Uint8Array(wide*high).fill(128);for(let[unit,by]of[1,2,2].entries())
gl.activeTexture(gl.TEXTURE0+unit),gl.texSubImage2D(gl.TEXTURE_2D,0,left/by,top/by,wide/by,high/by,gl.RED,gl.UNSIGNED_BYTE,
grey);this.grey[tile]=!0}code(colour){this.colour=colour,this.paintColours()}paintColours(){let{gl}=this,{matrix:name,full}=this.
colour,[kr,kb]=name==="bt709"?[.2126,.0722]:name.startsWith("bt2020")?[.2627,.0593]:[.299,.114],kg=1-kr-kb,[luma,chroma]=full?
[1,1]:[255/219,255/224],[r2,b2]=[2*(1-kr)*chroma,2*(1-kb)*chroma],columns=[luma,luma,luma,0,-b2*kb/kg,b2,r2,-r2*kr/kg,0];
gl.uniformMatrix3fv(this.uniforms.matrix,!1,columns),gl.uniform3f(this.uniforms.offset,full?0:16/255,128/255,128/255)}mark(states){
this.states=states;let{gl,manifest}=this;if(!manifest||this.lost||states.length!==manifest.columns*manifest.rows)return;
let texels=new Uint8Array(4*states.length);for(let[tile,{qp,late}]of states.entries()){let rank=qp===null?-1:manifest.qps.
indexOf(qp),coarse=manifest.qps.length>1?rank/(manifest.qps.length-1):0;texels.set([255*coarse,255*(1-coarse),late?255:0,
late?255:rank<0?0:70],4*tile)}gl.activeTexture(gl.TEXTURE3),gl.texSubImage2D(gl.TEXTURE_2D,0,0,0,manifest.columns,manifest.
rows,gl.RGBA,gl.UNSIGNED_BYTE,texels)}draw(eyes2,marks,into=null,lumaAlone=!1){let{gl,uniforms}=this;if(!(this.lost||!this.
manifest)){gl.bindFramebuffer(gl.FRAMEBUFFER,into),gl.uniform1f(uniforms.marks,marks?1:0),gl.uniform1f(uniforms.grey,lumaAlone?
1:0);for(let{head,halves:halves2,centre,port}of eyes2)gl.viewport(...port),gl.uniform4f(uniforms.port,...port),gl.uniform2f(
uniforms.halves,...halves2),gl.uniform2f(uniforms.centre,...centre),gl.uniformMatrix3fv(uniforms.head,!0,head),gl.drawArrays(
gl.TRIANGLES,0,3)}}};function times(a2,b2){return[a2[0]*b2[0]-a2[1]*b2[1]-a2[2]*b2[2]-a2[3]*b2[3],a2[0]*b2[1]+a2[1]*b2[0]+a2[2]*b2[3]-a2[3]*b2[2],
a2[0]*b2[2]+a2[2]*b2[0]+a2[3]*b2[1]-a2[1]*b2[3],a2[0]*b2[3]+a2[3]*b2[0]+a2[1]*b2[2]-a2[2]*b2[1]]}var radians=degrees2=>degrees2*
Math.PI/180;function matrix({yaw,pitch,roll}){let half=degrees2=>[Math.sin(radians(degrees2)/2),Math.cos(radians(degrees2)/
2)],[[sy,cy],[sp,cp],[sr,cr]]=[half(yaw),half(pitch),half(roll)],[w2,x2,y2,z2]=times(times([cy,0,0,-sy],[cp,0,-sp,0]),[cr,
sr,0,0]);return[1-2*(y2*y2+z2*z2),2*(x2*y2-w2*z2),2*(x2*z2+w2*y2),2*(x2*y2+w2*z2),1-2*(x2*x2+z2*z2),2*(y2*z2-w2*x2),2*(x2*
z2-w2*y2),2*(y2*z2+w2*x2),1-2*(x2*x2+y2*y2)]}var degrees=radians2=>radians2*180/Math.PI;function headOf(m2){let pitch=degrees(
Math.asin(Math.max(-1,Math.min(1,m2[6]))));return Math.abs(m2[6])>1-1e-9?{yaw:degrees(Math.atan2(m2[1],m2[4])),pitch,roll:0}:
{yaw:degrees(Math.atan2(-m2[3],m2[0])),pitch,roll:degrees(Math.atan2(m2[7],m2[8]))}}var WIDEST=100;function flat(head,fov,width,height){return{head:matrix(head),halves:halves(fov,width,height),centre:[0,0],
port:[0,0,width,height]}}function halves(fov,width,height){let half=Math.tan(fov*Math.PI/360);return width>=height?[half,
half*height/width]:[half*width/height,half]}var xr=()=>navigator.xr;async function isThere(){return await xr()?.isSessionSupported("immersive-vr").catch(()=>!1)??!1}
function turn({x:x2,y:y2,z:z2,w:w2}){let right=[1-2*(y2*y2+z2*z2),2*(x2*y2+w2*z2),2*(x2*z2-w2*y2)],up=[2*(x2*y2-w2*z2),1-
2*(x2*x2+z2*z2),2*(y2*z2+w2*x2)],back=[2*(x2*z2+w2*y2),2*(y2*z2-w2*x2),1-2*(x2*x2+y2*y2)],ours=([east,high,south],sign)=>[
-south,-east,high].map(value=>sign*value),axes=[ours(back,-1),ours(right,-1),ours(up,1)];return[0,1,2].flatMap(row=>axes.
map(axis=>axis[row]))}var Headset=class{constructor(gl,hooks){this.gl=gl;this.hooks=hooks}gl;hooks;session=null;isStarting=!1;get isWorn(){
return this.session!==null}async start(){if(!(this.isStarting||this.session)){this.isStarting=!0;try{let session=await xr()?.
requestSession("immersive-vr");if(!session)throw new Error("this browser has no WebXR");await this.begin(session)}finally{
this.isStarting=!1}}}async begin(session){let isOver=!1;session.addEventListener("end",()=>{isOver=!0,this.session===session&&
(this.session=null,this.hooks.over())});try{await this.gl.makeXRCompatible();let{XRWebGLLayer}=globalThis,layer=new XRWebGLLayer(
session,this.gl,{antialias:!1,alpha:!1,depth:!1});await session.updateRenderState({baseLayer:layer});let space=await session.
requestReferenceSpace("local");if(isOver)throw new Error("it was taken off");session.requestAnimationFrame((_2,frame)=>this.
step(session,layer,space,frame)),this.session=session,session.addEventListener("visibilitychange",()=>this.hooks.hidden(
session.visibilityState==="hidden"))}catch(error){throw isOver||await session.end().catch(()=>{}),error}}step(session,layer,space,frame){
if(this.session!==session)return;session.requestAnimationFrame((_2,next)=>this.step(session,layer,space,next));let pose=frame.
getViewerPose(space);if(!pose)return this.hooks.draw(null);let head=headOf(turn(pose.transform.orientation));this.hooks.
draw({eyes:eyes(layer,pose.views),head,into:layer.framebuffer})}stop(){this.session?.end().catch(()=>{})}};function eyes(layer,views){
return views.flatMap(view2=>{let place=layer.getViewport(view2);if(!place||place.width===0||place.height===0)return[];let{
x:x2,y:y2,width,height}=place,{projectionMatrix:p2,transform}=view2;return[{head:turn(transform.orientation),halves:[1/p2[0],
1/p2[5]],centre:[p2[8],p2[9]],port:[x2,y2,width,height]}]})}var NARROWEST=30,TURN=5,ZOOM=10,within=degrees2=>((degrees2+180)%360+360)%360-180;function byKey(view2,key,widest=WIDEST){
switch(key){case"ArrowLeft":return turned(view2,-TURN,0);case"ArrowRight":return turned(view2,TURN,0);case"ArrowUp":return turned(
view2,0,TURN);case"ArrowDown":return turned(view2,0,-TURN);case"+":case"=":return{...view2,fov:Math.max(Math.min(NARROWEST,
widest),view2.fov-ZOOM)};case"-":return{...view2,fov:Math.min(widest,view2.fov+ZOOM)};case"Home":return{yaw:0,pitch:0,roll:0,
fov:widest};default:return null}}function turned(view2,yaw,pitch){return{...view2,yaw:within(view2.yaw+yaw),pitch:Math.max(
-90,Math.min(90,view2.pitch+pitch))}}function dragged(view2,x2,y2,width,height){let[wide]=halves(view2.fov,width,height),
perPixel=2*wide/width*(180/Math.PI);return turned(view2,-x2*perPixel,y2*perPixel)}var Look=class{constructor(canvas2,changed){
this.changed=changed;let held2=null;canvas2.addEventListener("pointerdown",event=>{held2||event.button!==0||(held2={id:event.
pointerId,x:event.clientX,y:event.clientY},canvas2.setPointerCapture(event.pointerId))}),canvas2.addEventListener("point\
ermove",event=>{if(held2?.id!==event.pointerId)return;if(!(event.buttons&1)){held2=null;return}let[x2,y2]=[event.clientX-
held2.x,event.clientY-held2.y];held2={id:held2.id,x:event.clientX,y:event.clientY},this.move(dragged(this.view,x2,y2,canvas2.
clientWidth,canvas2.clientHeight))});let release=event=>{held2?.id===event.pointerId&&(held2=null)};canvas2.addEventListener(
"pointerup",release),canvas2.addEventListener("pointercancel",release),canvas2.addEventListener("lostpointercapture",release),
canvas2.addEventListener("keydown",event=>{event.ctrlKey||event.altKey||event.metaKey||this.key(event.key)&&event.preventDefault()})}changed;view={
yaw:0,pitch:0,roll:0,fov:WIDEST};by="hand";widest=WIDEST;key(name){let view2=byKey(this.view,name,this.widest);return view2&&
this.move(view2),view2!==null}move(view2){if(this.by==="headset")return;let{pitch,roll}=this.view;this.set(this.by==="de\
vice"?{...view2,pitch,roll}:view2)}follow(head,before){let turn2=before?head.yaw-before.yaw:0;this.set({...this.view,yaw:within(
this.view.yaw+turn2),pitch:head.pitch,roll:head.roll})}upright(){this.by="hand";let{yaw,pitch}=this.view,above=headOf(matrix(
{...this.view,pitch:90*Math.sign(pitch)}));this.set({...this.view,yaw:Math.abs(pitch)>60?above.yaw:yaw,roll:0})}span(fov=WIDEST){
if(fov===this.widest)return;let is=this.view.fov===this.widest?fov:Math.min(this.view.fov,fov);this.widest=fov,this.set(
{...this.view,fov:is})}set(view2){this.view=view2,this.changed(view2)}};var Speaker=class{context=null;playing=[];next=-1/0;late=0;unheard=0;off=null;get isOn(){return this.context!==null}async start(rate){
this.stop();let context=new AudioContext({sampleRate:rate});this.context=context,[this.late,this.unheard]=[0,0];let waits=new Promise(
(_2,reject)=>{setTimeout(()=>reject(new Error("the browser does not begin to play; is there a loudspeaker?")),5e3)});try{
await Promise.race([context.resume(),waits])}catch(error){if(this.context!==context)return;throw this.stop(),error}}pause(is){
is&&this.silence(),(is?this.context?.suspend():this.context?.resume())?.catch(()=>{})}stop(){this.silence(),this.context?.
close().catch(()=>{}),this.context=null}silence(){for(let{node}of this.playing)node.stop();this.playing=[],[this.next,this.
off]=[-1/0,null]}play({at,rate,channels},begins){let{context}=this,place=context&&this.place(context,begins+at,rate);if(!context||
!place)return;let{from,off}=place;if(from<context.currentTime*rate){(this.off!==null||(this.unheard+=1)>40)&&(this.late+=
1);return}this.unheard=0,this.off=off;let[{length}]=channels,buffer=context.createBuffer(channels.length,length,rate);for(let[
channel,samples]of channels.entries())buffer.copyToChannel(samples,channel);for(let playing2 of this.playing)playing2.ends<=
from||(playing2.ends=from,playing2.node.stop(from/rate));let node=context.createBufferSource();node.buffer=buffer,node.connect(
context.destination),node.start(from/rate),this.next=from+length;let playing={node,ends:this.next};this.playing.push(playing),
node.onended=()=>this.playing=this.playing.filter(other=>other!==playing)}place(context,due,rate){if(context.state!=="ru\
nning")return this.pause(!1),this.off=null,null;let{contextTime,performanceTime}=context.getOutputTimestamp();if(!contextTime||
performanceTime===void 0)return null;let wanted=Math.round(rate*(contextTime+(due-performance.timeOrigin-performanceTime)/
1e3)),off=1e3*(this.next-wanted)/rate;return Math.abs(off)<=45?{from:this.next,off}:{from:wanted,off:0}}};async function plays(rate,channels){
if(typeof AudioDecoder>"u"||typeof AudioContext>"u")return!1;let how={codec:"mp4a.40.2",sampleRate:rate,numberOfChannels:channels},
{supported}=await AudioDecoder.isConfigSupported(how).catch(()=>({supported:!1}));return supported===!0}var PATIENCE2=3e3;function held(alpha,beta,gamma,screen2){let[a2,b2,c2,s2]=[alpha,beta,gamma,screen2].map(angle=>angle*Math.
PI/180),[ca,sa,cb,sb,cg,sg]=[a2,b2,c2].flatMap(angle=>[Math.cos(angle),Math.sin(angle)]),right=[ca*cg-sa*sb*sg,cg*sa+ca*
sb*sg,-cb*sg],top=[-cb*sa,ca*cb,sb],out=[ca*sg+cg*sa*sb,sa*sg-ca*cg*sb,cb*cg],left=right.map((value,at)=>top[at]*Math.sin(
s2)-value*Math.cos(s2)),up=right.map((value,at)=>value*Math.sin(s2)+top[at]*Math.cos(s2)),ours=([east,north,high])=>[north,
-east,high],axes=[ours(out).map(value=>-value),ours(left),ours(up)];return headOf([0,1,2].flatMap(row=>axes.map(axis=>axis[row])))}
var isHeld=()=>typeof DeviceOrientationEvent<"u"&&navigator.maxTouchPoints>0,Tilt=class{constructor(moved){this.moved=moved}moved;over=null;get isOn(){
return this.over!==null}async start(failed){let asking=()=>{};this.over=asking;let answer=await DeviceOrientationEvent.requestPermission?.().
catch(error=>error.message)??"granted";if(this.over===asking){if(answer==="granted")return this.listen(failed);this.stop(),
failed(`The browser does not let this page know how the device is held (${answer}).`)}}listen(failed){let hear=({alpha,beta,
gamma})=>{alpha===null||beta===null||gamma===null||(clearTimeout(silence),this.moved(held(alpha,beta,gamma,screen.orientation?.
angle??0)))},silence=setTimeout(()=>failed("This device does not say how it is held."),PATIENCE2);this.over=()=>{clearTimeout(
silence),removeEventListener("deviceorientation",hear)},addEventListener("deviceorientation",hear)}stop(){this.over?.(),
this.over=null}};function mean(samples){let last=samples[samples.length-1],rate=place=>samples.reduce((sum,sample)=>sum+(sample.paths[place]?.[1]??
0),0)/samples.length;return{paths:last.paths.map(([name,,up],place)=>[name,rate(place),up])}}var number=(value,digits=0)=>value.
toFixed(digits),share=(part,of)=>of>0?`${number(100*part/of,1)} %`:"–",isStill=({link,figures,place})=>link.is==="live"&&
figures!==null&&place?.moves===!1,hasNothing=({link,nothing:is})=>link.is==="live"&&is;function says(page2){let{link,manifest,
gop}=page2;switch(link.is){case"connecting":return"connecting";case"live":return!manifest||gop<0?"waiting for the stream":
`${isStill(page2)?"the picture stands still: what is next has not come":hasNothing(page2)?"live, but the server sent not\
hing of this part: what is seen is older, or grey":"live"}${page2.place&&!page2.place.steers?"; another page steers":""}`;case"\
over":return"the stream is over";default:return link.reason}}function qualities(page2){let counts=new Map,late=page2.tiles.
filter(tile=>tile.late).length;for(let{qp}of page2.tiles){let name=qp===null?"none":`QP ${qp}`;counts.set(name,(counts.get(
name)??0)+1)}return`${[...counts].sort().map(([name,count])=>`${count} × ${name}`).join(", ")}${late>0?`; ${late} late`:
""}`}function hears({off,late}){let lost=late>0?`; ${late} frames came too late`:"";return off===null?`nothing is heard \
yet${lost}`:`${number(Math.abs(off))} ms ${off<0?"before":"after"} the picture${lost}`}function rows(page2){let{manifest,
figures,sample,report,place}=page2,all=[];if(manifest){let{width,height,columns,rows:high,gops,scheme,concealment}=manifest;
all.push(["Stream",`${width}×${height}, ${columns}×${high} tiles, ${scheme}, ${concealment}`]),page2.gop>=0&&all.push(
["GoP",gops>0?`${page2.gop+1} of ${gops}`:`${page2.gop+1}, live`])}page2.tiles.length>0&&all.push(["Tiles shown",qualities(
page2)]);for(let[name,mbps,up]of page2.link.is==="live"?sample?.paths??[]:[])all.push([`Path ${name}`,up?`${number(mbps,
2)} Mb/s`:`${number(mbps,2)} Mb/s, down`]);if(report){let psnr=report.psnr_db===null?"–":`${number(report.psnr_db,1)} \
dB`,whose=place&&!place.steers?"Viewport of the page that steers":"Viewport";all.push([`${whose}, estimated`,`${psnr} (G\
oP ${report.gop+1})`])}if(figures){let pictures=figures.shown+figures.dropped;all.push(["Pictures shown",`${figures.shown}\
 of ${pictures} (${share(figures.shown,pictures)})`]),page2.stood>0&&all.push(["The picture stood still",`${number(page2.
stood,1)} s in all`]),page2.leftOut>0&&all.push(["Tiles not sent, or their base layer only",String(page2.leftOut)]),all.
push(["Tiles late by the network",String(figures.lateNetwork)]),all.push(["Tiles late by decoding",String(figures.lateDecoding)]);
let{gops,bytes}=figures.ahead,lead=figures.lead<0?`${number(-figures.lead)} ms too late`:`${number(figures.lead)} ms at \
least`;page2.link.is==="live"&&(all.push(["Waiting to be shown",`${gops} ${gops===1?"GoP":"GoPs"}, ${number(bytes/1e6,2)}\
 MB`]),all.push(["Ready before its time",`${lead}, of ${number(page2.delay)} ms`]))}return page2.sound?.on&&all.push(["S\
ound",hears(page2.heard)]),place&&(all.push(["Pages that watch",String(place.viewers)]),place.dropped>0&&all.push(["Tile\
s this page was not sent",String(place.dropped)])),page2.trouble&&all.push(["Trouble",page2.trouble]),all}var switched=(name,words,{
on},click)=>b`<button name=${name} aria-pressed=${on?"true":"false"} @click=${click}>${words}</button>`;function view(page2,actions2){
let{link}=page2,steers=page2.place?.steers??!0;return b`
<h1 class="unseen">Weftline player</h1>
<div class="bar">
<p class="link ${isStill(page2)||hasNothing(page2)?"still":link.is}" role="status">${says(page2)}</p>
<p class="direction">${page2.direction}</p>
<div class="controls">
${steers?A:b`<button name="steer" @click=${actions2.steer}>Steer</button>`}
${page2.sound?switched("sound","Sound",page2.sound,actions2.sound):A}
${page2.tilt&&!page2.headset?.on?switched("tilt","Follow this device",page2.tilt,actions2.tilt):A}
${page2.headset?switched("headset","Headset",page2.headset,actions2.headset):A}
${switched("marks","Tiles",{on:page2.marks},actions2.marks)}
${document.fullscreenEnabled?b`<button name="whole" @click=${actions2.whole}>Full screen</button>`:A}
${turns(actions2)}
</div>
</div>
${page2.notice?b`<p role="alert">${page2.notice} <button @click=${actions2.dismiss}>Close</button></p>`:A}
${page2.trouble?b`<p role="alert">${page2.trouble}</p>`:A}
${page2.marks?b`<p class="legend">
<span class="fine"></span>finest <span class="coarse"></span>coarsest
<span class="late"></span>late
</p>`:A}
<details>
<summary>Figures</summary>
<table aria-label="Figures">
<tbody>
${rows(page2).map(([name,value])=>b`<tr><th scope="row">${name}</th><td>${value}</td></tr>`)}
</tbody>
</table>
<p>Drag the picture to look around, use the arrow keys on it, or the buttons; + and − zoom, Home looks ahead.
${page2.tilt?"Follow this device: turn it, and drag to turn further.":A}
${page2.headset?"Headset: until it is taken off, or the button is pressed again.":A}</p>
</details>
`}var TURNS=[["ArrowLeft","←","Look left"],["ArrowUp","↑","Look up"],["ArrowDown","↓","Look down"],["ArrowRight","\
→","Look right"],["+","+","Narrower view"],["-","−","Wider view"]],turns=({key})=>b`<div class="turns" role="group" aria-label="Look around">
${TURNS.map(([name,sign,words])=>b`<button aria-label=${words} @click=${()=>key(name)}>${sign}</button>`)}
</div>`;function refused(reason,remedy){return b`<div class="refused"><h1>This cannot be played here</h1><p role="alert">${reason}</p><p>${remedy}</p></div>`}var Waiting=class{pictures=[];push(picture){let after=this.pictures.findIndex(({number:number2})=>number2>picture.number);
this.pictures.splice(after<0?this.pictures.length:after,0,picture);let over=[];for(;this.isFull();)over.push(this.pictures.
pop());return over}due(at){let missed=this.pictures.filter(picture=>picture.at<=at);return this.pictures.splice(0,missed.
length),{newest:missed.pop(),missed}}clear(){return this.pictures.splice(0)}isFull(){let bytes=this.pictures.reduce((sum,{
buffer})=>sum+buffer.byteLength,0);return this.pictures.length>(bytes>201326592?8:32)}};var MEAN_OF=4,FIGURES=500,HEADS=50,measures=new URLSearchParams(location.search).has("measure"),KNOWN=64,canvas=document.
getElementById("picture"),panel=document.getElementById("app"),calm=matchMedia("(prefers-reduced-motion: reduce)"),page={
link:{is:"connecting"},manifest:null,gop:-1,tiles:[],nothing:!1,figures:null,place:null,sample:null,report:null,stood:0,
leftOut:0,trouble:"",delay:0,marks:!1,direction:"",notice:"",tilt:null,headset:null,sound:null,heard:{off:null,late:0}};
function lacks(){return isSecureContext?typeof VideoDecoder>"u"||typeof EncodedVideoChunk>"u"?["This browser has no WebC\
odecs (VideoDecoder), by which the tiles are decoded","Use a current Chromium, Chrome or Edge: the player was tried in C\
hromium only."]:null:[`${location.origin} is no secure context, and browsers decode video only in one`,"Start it with we\
ftline vr play --web-tls; open it on the machine on which it runs, at 127.0.0.1; reach it by ssh -L; or put a proxy with\
 TLS in front of it, --behind-proxy NAME."]}async function lacksCodec(){let tile={codec:"avc1.640028",codedWidth:320,codedHeight:320},
{supported}=await VideoDecoder.isConfigSupported(tile).catch(()=>({supported:!1}));return supported?null:["This browser \
cannot decode H.264, which the tiles are encoded with","Use one that can, such as Chrome or Edge; on Linux a Chromium th\
at is built with proprietary codecs."]}var Player=class{worker;screen;look;tilt;headset;held=null;headAt=0;awake=null;awakeTurn=0;waiting=new Waiting;speaker=new Speaker;soundTurn=0;isHidden=!0;begins=null;stale=!0;figuresAt=0;samples=[];known=new Map;shown=null;drawn=0;constructor(){
this.screen=new Screen(canvas),this.worker=new Worker(script("/a/player-worker.js"),{type:"module"}),this.worker.onmessage=
({data})=>this.take(data),this.worker.onerror=event=>this.say(event.message),this.look=new Look(canvas,({yaw,pitch,roll})=>{
this.tell({is:"pose",yaw,pitch,roll}),this.stale=!0}),this.tilt=new Tilt(head=>{this.held||(page.notice=""),this.look.follow(
head,this.held),this.held=head}),this.headset=new Headset(this.screen.gl,{draw:worn=>this.wear(worn),hidden:is=>this.hide(
is),over:()=>this.takeOff()}),canvas.addEventListener("webglcontextlost",()=>this.headset.stop()),page.tilt=isHeld()?{on:!1}:
null,isThere().then(is=>{page.headset=is?{on:!1}:null,this.paint()}),this.turned(),new ResizeObserver(()=>this.resize()).
observe(canvas),document.addEventListener("visibilitychange",()=>{this.headset.isWorn||this.hide(document.hidden),this.stayAwake()}),
this.hide(document.hidden),canvas.addEventListener("webglcontextrestored",()=>{this.stale=!0,this.shown=null}),this.paint(),
requestAnimationFrame(()=>this.frame())}tell(message,transfer=[]){this.worker.postMessage(message,transfer)}say(trouble){
page.trouble=trouble,this.paint()}turned(){let{fov}=this.look.view,[yaw,pitch]=[this.look.view.yaw,this.look.view.pitch].
map(Math.round),side=yaw===0?"ahead":`${Math.abs(yaw)}° ${yaw>0?"right":"left"}`,height=pitch===0?"":`, ${Math.abs(pitch)}\
° ${pitch>0?"up":"down"}`,direction=`${side}${height}${fov<this.look.widest?`, ${fov.toFixed(0)}° wide`:""}`;direction!==
page.direction&&(page.direction=direction,this.paint())}resize(){let scale=Math.min(devicePixelRatio,2),[width,height]=[
canvas.clientWidth*scale,canvas.clientHeight*scale].map(Math.round);width>0&&height>0&&(canvas.width!==width||canvas.height!==
height)&&([canvas.width,canvas.height]=[width,height],this.stale=!0)}take(message){switch(message.is){case"picture":for(let over of this.
waiting.push(message.picture))this.done(over,!1);return;case"sound":this.hear(message.sound);return;case"clock":this.begins=
message.begins,page.delay=message.delay;return;case"link":page.link=message.link,this.stayAwake(),(message.link.is==="ov\
er"||message.link.is==="refused")&&this.headset.stop();break;case"manifest":[page.manifest,page.gop,page.figures]=[message.
manifest,-1,null],[page.tiles,page.nothing]=[[],!1],page.trouble="",page.sound=message.manifest.sound&&{on:page.sound?.on??
!1},page.sound||this.speaker.stop(),this.shown=null,this.known.clear();try{this.screen.start(message.manifest)}catch(error){
page.trouble=String(error)}break;case"colour":this.screen.code(message.colour);break;case"gop":[page.gop,page.tiles,page.
nothing]=[message.gop,message.tiles,message.nothing],measures&&this.know(message.gop,message.tiles),this.screen.mark(message.
tiles),canvas.dataset.qps=message.tiles.map(({qp,late})=>late?"late":qp??"").join(",");break;case"figures":page.figures=
message.figures;break;case"place":page.place=message.place;break;case"sample":this.samples=[...this.samples.slice(1-MEAN_OF),
JSON.parse(message.text)],page.sample=mean(this.samples),this.look.span(this.samples.at(-1)?.fov);break;case"report":page.
report=JSON.parse(message.text),page.stood+=page.report.stalled_s,page.leftOut+=page.report.dropped;break;case"trouble":
page.trouble=message.text;break}(message.is==="link"||now()-this.figuresAt>(calm.matches?10:1)*FIGURES)&&this.paint()}paint(){
this.figuresAt=now(),D(view(page,actions),panel),document.title=page.link.is==="live"?"Weftline player":`Weftline player\
: ${page.link.is}`}done({number:number2,buffer},shown){this.tell({is:"done",number:number2,shown,buffer},[buffer])}advance(){
let at=this.begins===null?-1/0:now()-this.begins,{newest,missed}=this.waiting.due(at);for(let picture of missed)this.done(
picture,!1);return newest&&(this.screen.upload(newest),this.shown={number:newest.number,whole:newest.tiles.every(state=>state===
1)},this.stale=!0),newest}drew(newest){canvas.dataset.drawn=String(this.drawn+=1),newest&&(canvas.dataset.number=String(
newest.number),this.done(newest,!this.screen.lost))}frame(){if(requestAnimationFrame(()=>this.frame()),this.headset.isWorn)
return;let newest=this.advance();if(!this.stale)return;let{view:view2}=this.look;this.screen.draw([flat(view2,view2.fov,
canvas.width,canvas.height)],page.marks),this.turned(),this.stale=!1,this.drew(newest)}wear(worn){let newest=this.advance();
if(!worn){newest&&this.done(newest,!1);return}let{eyes:eyes2,head,into}=worn;now()-this.headAt>=HEADS&&(this.headAt=now(),
this.look.set({...this.look.view,...head})),this.screen.draw(eyes2,page.marks,into),now()-this.figuresAt>FIGURES&&this.turned(),
canvas.dataset.eyes=String(eyes2.length),this.drew(newest)}know(gop,tiles){this.known.set(gop,tiles);let[oldest]=this.known.
keys();this.known.size>KNOWN&&this.known.delete(oldest)}measure(view2){let{pictures}=page.manifest??{pictures:1},gop=Math.
floor((this.shown?.number??0)/pictures),qps=this.known.get(gop)?.map(({qp})=>qp);if(!this.shown?.whole||!qps||qps.includes(
null)||this.screen.lost)return null;let{width,height}=canvas;this.screen.draw([flat(view2,view2.fov,width,height)],!1,null,
!0);let png=canvas.toDataURL("image/png");return this.stale=!0,{gop,picture:this.shown.number%pictures,qps,...view2,width,
height,png}}hear(sound){if(this.isHidden||this.begins===null)return;let{late}=this.speaker;this.speaker.play(sound,this.
begins),page.heard={off:this.speaker.off,late:this.speaker.late},this.speaker.late>late&&this.tell({is:"late"})}async switchSound(){
page.notice="";let turn2=this.soundTurn+=1,{sound}=page.manifest??{sound:null};if(page.sound?.on)this.speaker.stop();else if(sound){
page.sound={on:!0},this.paint();let notice=await this.listen(sound.rate,sound.channels,turn2);if(turn2!==this.soundTurn)
return;page.notice=notice}this.tell({is:"listen",on:this.speaker.isOn}),page.sound=sound&&{on:this.speaker.isOn},page.heard=
{off:null,late:0},this.paint()}async listen(rate,channels,turn2){let does=await plays(rate,channels);if(turn2!==this.soundTurn)
return"";if(!does)return"This browser does not decode the sound, which is AAC. Use one that does, such as Chrome or Edge\
.";try{return await this.speaker.start(rate),""}catch(error){return`The sound: ${error.message}`}}takeOff(){page.headset=
{on:!1},delete canvas.dataset.eyes,this.look.upright(),this.hide(document.hidden),this.paint()}async switchHeadset(){if(page.
notice="",this.headset.isWorn)return this.headset.stop();try{await this.headset.start()}catch(error){page.notice=`The he\
adset: ${error.message}`}this.headset.isWorn&&(this.tilt.isOn&&this.switchTilt(),this.look.by="headset",document.hidden&&
this.hide(!1)),page.headset={on:this.headset.isWorn},this.paint()}switchTilt(){page.notice="",this.held=null,this.tilt.isOn?
(this.tilt.stop(),this.look.upright()):(this.look.by="device",this.tilt.start(reason=>{page.notice=reason,page.tilt={on:this.
tilt.isOn},this.tilt.isOn||this.look.upright(),this.paint()})),page.tilt={on:this.tilt.isOn},this.paint()}async stayAwake(){
let turn2=this.awakeTurn+=1,before=this.awake;if(this.awake=null,await before?.release().catch(()=>{}),page.link.is!=="l\
ive"||document.hidden)return;let lock=await navigator.wakeLock?.request("screen").catch(()=>null)??null;turn2===this.awakeTurn?
this.awake=lock:await lock?.release().catch(()=>{})}hide(hidden){for(let picture of this.waiting.clear())this.done(picture,
!1);this.isHidden=hidden,this.speaker.pause(hidden),this.tell({is:"hidden",hidden}),this.stale=!0}again(){this.stale=!0,
this.paint()}steer(){this.tell({is:"steer"})}};function script(path){let types=globalThis.trustedTypes,createScriptURL=url=>{
if(url!==path)throw new TypeError(`${url} is no script of ours`);return url};return types?types.createPolicy("weftline",
{createScriptURL}).createScriptURL(path):path}var player=null,actions={marks(){page.marks=!page.marks,player?.again()},steer:()=>player?.
steer(),tilt:()=>player?.switchTilt(),headset:()=>{player?.switchHeadset()},sound:()=>{player?.switchSound()},dismiss(){
page.notice="",player?.again()},key:name=>{player?.look.key(name)},whole(){document.fullscreenElement?document.exitFullscreen():
document.documentElement.requestFullscreen()}};function refuse(reason,remedy){canvas.hidden=!0,document.title="Weftline \
player: not here",D(refused(reason,remedy),panel)}async function start(){let missing=lacks()??await lacksCodec();if(missing)
return refuse(...missing);try{page.notice=await begin()}catch(error){return refuse(error.message,"Open the address that \
weftline vr play printed.")}try{player=new Player;let own=player;measures&&Object.assign(globalThis,{weftlineMeasure:view2=>own.
measure(view2)})}catch(error){refuse(error.message,"The picture is drawn by WebGL 2: turn on hardware acceleration in th\
e browser, or use another one.")}}start();window.addEventListener("hashchange",()=>{location.hash.startsWith("#k=")&&another()});
async function another(){try{if(page.notice=await begin(),!page.notice)return location.reload()}catch(error){page.notice=
error.message}player?.again()}
